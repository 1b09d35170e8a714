"""``sgl explain``: every configuration decision with its author, reason and place; on this machine or on another."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sgl_core.api.facts import Facts
from sgl_core.config.argv import Parsed, parse_argv
from sgl_core.config.errors import ConfigError, RuleError, did_you_mean
from sgl_core.config.explain_model import example_architectures, model_info_of
from sgl_core.config.explanation import to_json, try_resolve
from sgl_core.config.fields import fields
from sgl_core.config.machine_profiles import ProfileError, load_facts
from sgl_core.config.serve_options import registries_for
from sgl_core.config.server_args import ServerArgs
from sgl_core.config.values import BadValue, from_text

HELP = """\
usage: sgl explain [MODEL] [FIELD ...] [OPTIONS ...]

Shows how the configuration of a model comes about: each field that a rule or you decided, the value, who decided, and why.
MODEL is a path, a cached repository id, a config.json, or an architecture with an example ({examples}, ...).
FIELD limits the answer to single fields and tells their whole story. Without MODEL, a field's declaration is shown.

  --facts NAME|FILE   on another machine: a profile such as b200 or h100x8, or a file made with `sgl facts`
  --diff NAME|FILE    show what changes on that machine
  --set FIELD=VALUE   as if you had set this; every flag of `sgl serve` works too
  --why               tell the whole story of every field
  --coverage          which fields the installed packages act on, by subject (with --why: their names)
  --json              print JSON (the form of golden tests)"""


@dataclass(slots=True)
class Request:
    """What the command line of ``sgl explain`` asks for; ``rest`` are serving options."""

    facts: str = ""
    diff: str = ""
    sets: list[str] = field(default_factory=list)
    why: bool = False
    coverage: bool = False
    as_json: bool = False
    help: bool = False
    rest: list[str] = field(default_factory=list)


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 on success, 1 where the configuration is refused, 2 for a wrong command line."""
    try:
        request = read_request(argv)
        if request.help:
            print(HELP.format(examples=", ".join(example_architectures()[:4])))
            return 0
        return run(request)
    except (ConfigError, ProfileError) as error:
        print(f"sgl explain: {error}", file=sys.stderr)
        return 2
    except RuleError as error:
        print(f"sgl explain: {error}", file=sys.stderr)
        return 1


def read_request(argv: Sequence[str]) -> Request:
    """Take this command's own options out of the command line. Raises ConfigError for one without its value."""
    request = Request()
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, inline = word.partition("=")
        if name in ("--facts", "--diff", "--set"):
            if not equals and not words:
                raise ConfigError(f"{name} needs a value", fix="`sgl explain --help` describes it")
            value = inline if equals else words.pop(0)
            if name == "--set":
                request.sets.append(value)
            else:
                setattr(request, name[2:], value)
        elif word in ("-h", "--help"):
            request.help = True
        elif word in ("--why", "--coverage"):
            setattr(request, word[2:], True)
        elif word == "--json":
            request.as_json = True
        else:
            request.rest.append(word)
    return request


def run(request: Request) -> int:
    """Answer the request."""
    from sgl_core.registry.errors import RegistryError

    from . import explain_view as view

    parsed = parse_argv(request.rest)
    names, model_path = positional(parsed)
    apply_sets(parsed, request.sets)
    try:
        registries = registries_for(ServerArgs.from_sources(cli=parsed, env=os.environ))
        if request.coverage:
            return view.show_coverage(registries, as_json=request.as_json, names=request.why)
        args = ServerArgs.from_sources(cli=parsed, env=os.environ, registries=registries)
        model_path = model_path or args.model_path
        if not model_path:
            return view.show_fields(names, registries, as_json=request.as_json)
        facts, note = machine(request.facts, args.device, registries)
        model = model_info_of(model_path, registries, args.revision)
        outcome = try_resolve(args, facts, model, registries)
        if request.diff:
            there = try_resolve(args, load_facts(request.diff, registries), model, registries)
            return view.show_differences(outcome, there, names, as_json=request.as_json)
    except RegistryError as error:
        print(f"sgl explain: {error}", file=sys.stderr)
        return 2
    if request.as_json:
        print(json.dumps(limited(to_json(outcome), names), indent=2, default=str))
    else:
        view.show_outcome(outcome, names, note, whole=request.why, registries=registries)
    return 0 if outcome.refusal is None else 1


def positional(parsed: Parsed) -> tuple[list[str], str]:
    """Field names and MODEL among the positional words. Raises ConfigError for a word that is neither."""
    words = [word.strip("-").replace("-", "_") for word in parsed.positional]
    model = ""
    if parsed.positional and words[0] not in fields():
        model = parsed.positional[0]
        words = words[1:]
    for word in words:
        if word not in fields():
            raise ConfigError(f"no configuration field {word!r}.{did_you_mean(word, fields())}")
    parsed.positional = [model] if model else []
    return words, model


def apply_sets(parsed: Parsed, sets: list[str]) -> None:
    """Enter ``--set field=value`` as if it were the field's flag. Raises ConfigError."""
    for text in sets:
        name, equals, value = text.partition("=")
        name = name.strip("-").replace("-", "_") if not name.startswith("_") else name
        if name not in fields() or not equals:
            near = did_you_mean(name, fields())
            raise ConfigError(f"--set {text}: write FIELD=VALUE with a configuration field.{near}")
        declared = fields()[name]
        try:
            read = (
                [from_text(declared, word) for word in value.split(",")]
                if declared.is_list
                else from_text(declared, value)
            )
        except BadValue as error:
            raise ConfigError(f"--set {name}: {error}", fields=(name,)) from None
        parsed.values[name] = (read, f"--set {name}")


def machine(name: str, device: str | None, registries: Any) -> tuple[Facts, str]:
    """The facts to explain for and a note about them."""
    if name:
        return load_facts(name, registries), ""
    if not registries.platforms.names():
        return load_facts(
            "cpu"
        ), "no platform package is installed here: explained for the profile cpu; --facts chooses another"
    from sgl_core.registry.platform import select_platform

    return select_platform(registries, device, os.environ).facts, ""


def limited(data: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The JSON form for single fields."""
    if not names:
        return data
    return {
        **data,
        "changed": {name: value for name, value in data["changed"].items() if name in names},
        "ledger": [entry for entry in data["ledger"] if entry["field"] in names],
    }
