"""Command-line words to raw settings: our own parser, made from the field declarations, without importing argparse or click."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from .declare import Field, OldFlag, RetiredFlag
from .errors import ConfigError, did_you_mean
from .fields import RETIRED_FLAGS, fields
from .values import BadValue, from_text, parse_bool

NAMED_MODEL = re.compile(r"[A-Za-z0-9][\w.:/-]*=.+")
NEGATIVE_NUMBER = re.compile(r"-\d+(\.\d*)?|-\.\d+")


@dataclass(frozen=True, slots=True)
class Spelling:
    """One flag: the field it sets and how. ``store`` is set for flags without a value."""

    flag: str
    field: Field
    store: Any = None
    old: OldFlag | None = None

    @property
    def takes_value(self) -> bool:
        if self.old is not None:
            return self.old.takes_value and not self.field.is_switch
        return not self.field.is_switch


@dataclass(slots=True)
class Parsed:
    """What a command line said: values by field with the flag as typed, positional words, and warnings."""

    values: dict[str, tuple[Any, str]] = field(default_factory=dict)
    positional: list[str] = field(default_factory=list)
    config_files: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problems: list[ConfigError] = field(default_factory=list)


@cache
def spellings() -> dict[str, Spelling]:
    """Every flag that sets a field. Raises ValueError where two fields claim one flag."""
    table: dict[str, Spelling] = {}
    for declared in fields().values():
        for spelling in spellings_of(declared):
            if spelling.flag in table:
                raise ValueError(f"{spelling.flag} belongs to {table[spelling.flag].field.name} and to {declared.name}")
            table[spelling.flag] = spelling
    return table


def spellings_of(declared: Field) -> list[Spelling]:
    """The flags of one field: its own, aliases, the ``--no-`` form, deprecated ones."""
    found: list[Spelling] = []
    if declared.cli:
        found += [Spelling(flag, declared, store=True) for flag in (declared.flag, *declared.aliases)]
        if declared.pair:
            found.append(Spelling("--no-" + declared.flag[2:], declared, store=False))
    for old in declared.old_flags:
        store = True if old.takes_value and declared.is_switch else old.store
        found.append(Spelling(old.flag, declared, store=store, old=old))
    return found


def find_flag(word: str) -> Spelling | RetiredFlag:
    """The flag that ``word`` means: itself or the one flag of the reference system that it abbreviates.

    Raises ConfigError naming the nearest flags, or those among which an abbreviation cannot choose.
    """
    table = spellings()
    if word in table:
        return table[word]
    for retired in RETIRED_FLAGS:
        if word == retired.flag:
            return retired
    longer = [s for flag, s in table.items() if flag.startswith(word) and not s.field.own]
    if longer and len(word) > 3 and len({(s.field.name, str(s.store)) for s in longer}) == 1:
        return longer[0]
    if len(longer) > 1 and len(word) > 3:
        raise ConfigError(
            f"{word} is ambiguous: {', '.join(sorted(s.flag for s in longer)[:8])}", fix="write the flag in full"
        )
    raise ConfigError(
        f"no such flag: {word}.{did_you_mean(word, table)}", fix="`sgl serve --help WORD` lists flags about WORD"
    )


def parse_argv(argv: Sequence[str]) -> Parsed:
    """Read a command line. Every mistake is collected in ``problems``; nothing is raised."""
    parsed = Parsed()
    words = list(argv)
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            parsed.positional += words[at:]
            break
        if not word.startswith("--"):
            if word.startswith("-") and len(word) > 1 and not NEGATIVE_NUMBER.fullmatch(word):
                parsed.problems.append(ConfigError(f"no such flag: {word}", fix="flags begin with two dashes"))
            else:
                parsed.positional.append(word)
            continue
        flag, equals, inline = word.partition("=")
        try:
            at = read_flag(parsed, flag, inline if equals else None, words, at)
        except ConfigError as problem:
            parsed.problems.append(problem)
            at = skip_values(words, at)
    return parsed


def read_flag(parsed: Parsed, flag: str, inline: str | None, words: list[str], at: int) -> int:
    """Read one flag and its values from ``words[at:]``; returns where the next flag begins."""
    if flag == "--config":
        path, at = one_value(flag, inline, words, at)
        parsed.config_files.append(path)
        return at
    found = find_flag(flag)
    if isinstance(found, RetiredFlag):
        if found.refused:
            raise ConfigError(f"{flag} is no longer supported", fix=found.advice)
        parsed.warnings.append(f"{flag} is deprecated: {found.advice}")
        return at
    if found.old is not None:
        parsed.warnings.append(f"{flag} is deprecated; use {found.old.use}")
    value: Any
    try:
        if not found.takes_value:
            value = read_switch(found, inline)
        elif found.field.is_list:
            value, at = read_list(found.field, flag, inline, words, at)
        elif found.field.nargs == "?" and inline is None and not is_value(words, at):
            value = found.field.const
        else:
            text, at = one_value(flag, inline, words, at)
            value = from_text(found.field, text)
    except BadValue as error:
        raise ConfigError(f"{flag}: {error}", fields=(found.field.name,)) from None
    if found.field.name == "model_path" and is_named_model(value):
        earlier = parsed.values.get("models", ([], ""))[0]
        parsed.values["models"] = ([*earlier, value], flag)
        return at
    parsed.values[found.field.name] = (value, flag)
    return at


def is_named_model(text: str) -> bool:
    """Whether the value of ``--model`` is NAME=PATH, one of several models, and not a path with an equals sign in it."""
    return bool(NAMED_MODEL.fullmatch(text)) and not os.path.exists(text)


def read_switch(spelling: Spelling, inline: str | None) -> Any:
    """The value of a flag that stands alone; ``--flag=false`` turns a switch off that a file or the environment set."""
    if inline is None:
        return spelling.store
    if not isinstance(spelling.store, bool):
        raise BadValue("takes no value")
    return parse_bool(inline) is spelling.store


def read_list(declared: Field, flag: str, inline: str | None, words: list[str], at: int) -> tuple[list[Any], int]:
    """The words up to the next flag, each converted; ``--flag=a`` gives one."""
    if inline is not None:
        return [from_text(declared, inline)], at
    end = skip_values(words, at)
    if end == at and declared.nargs == "+":
        raise BadValue("needs at least one value")
    return [from_text(declared, word) for word in words[at:end]], end


def one_value(flag: str, inline: str | None, words: list[str], at: int) -> tuple[str, int]:
    """The flag's one value, inline or the next word."""
    if inline is not None:
        return inline, at
    if not is_value(words, at):
        raise ConfigError(f"{flag} needs a value")
    return words[at], at + 1


def is_value(words: list[str], at: int) -> bool:
    """Whether ``words[at]`` is a value and not a flag (a negative number is a value)."""
    return at < len(words) and (not words[at].startswith("-") or bool(NEGATIVE_NUMBER.fullmatch(words[at])))


def skip_values(words: list[str], at: int) -> int:
    """The index of the next flag."""
    while is_value(words, at):
        at += 1
    return at
