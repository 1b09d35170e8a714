"""The ``sgl`` command: finds the subcommand's entry by a text scan and hands over; help imports no spec of our own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sgl_core import __version__

from .commands import OWN_COMMANDS

if TYPE_CHECKING:
    from sgl_core.registry.scan import Scan

_GROUP = "sgl.commands.v1"
_USAGE = "usage: sgl COMMAND [ARGUMENTS ...]"
_EPILOG = "`sgl COMMAND --help` describes a command; `sgl --version` prints the version."


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``sgl`` with the arguments after the program name; returns the exit status.

    2 for a wrong command line, 1 when the command cannot be loaded, 130 after an interrupt, else the command's own.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(args, os.environ)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went away (`sgl ... | head`); keep the interpreter from complaining when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _run(args: list[str], env: Mapping[str, str]) -> int:
    if args[:1] == ["help"]:
        args = [*args[1:2], "--help"]
    if not args or args[0] in ("-h", "--help"):
        print(help_text(env))
        return 0
    if args[0] in ("-V", "--version"):
        print(f"sgl {__version__}")
        return 0
    if args[0].startswith("-"):
        print(f"sgl: there is no option {args[0]}\n{_USAGE}\n{_EPILOG}", file=sys.stderr)
        return 2
    return run_command(args[0], args[1:], env)


def run_command(name: str, args: list[str], env: Mapping[str, str]) -> int:
    """Load the command's target and call it with its arguments."""
    from sgl_core.registry.errors import RegistryError, UnknownName, describe, did_you_mean
    from sgl_core.registry.policy import Policy
    from sgl_core.registry.registries import Registries
    from sgl_core.registry.scan import scan

    try:
        registries = Registries(scan(), Policy.from_env(env))
        command = registries.commands.load(name)
    except UnknownName as error:
        close = did_you_mean(error.suggestions)
        print(f"sgl: there is no command {name!r}{close}\n{_USAGE}\n{_EPILOG}", file=sys.stderr)
        return 2
    except RegistryError as error:
        print(f"sgl: {describe(error)}", file=sys.stderr)
        return 1
    return _call(command, name, args)


def _call(command: Any, name: str, args: list[str]) -> int:
    """Call ``main(argv)``, or run a click command or typer application under the name ``sgl NAME``."""
    if type(command).__module__.partition(".")[0] == "typer":
        import typer

        command = typer.main.get_command(command)
    if not isinstance(command, type) and hasattr(command, "make_context"):
        command.main(args=args, prog_name=f"sgl {name}")
        return 0
    return int(command(args) or 0)


def help_text(env: Mapping[str, str]) -> str:
    """The page of ``sgl --help``: every command that an installed distribution offers, under its heading."""
    from sgl_core.registry.policy import Policy
    from sgl_core.registry.scan import scan

    found = scan()
    policy = Policy.from_env(env)
    owners: dict[str, list[str]] = {}
    for entry in found.entries:
        if entry.group == _GROUP and not policy.excludes(entry.dist.name):
            owners.setdefault(entry.name, []).append(entry.dist.name)
    rows: dict[str, list[tuple[str, str]]] = {}
    for name in [*OWN_COMMANDS, *sorted(set(owners) - set(OWN_COMMANDS))]:
        if name in owners:
            heading, line = _row(name, owners[name], found, policy.prefer.get(f"commands.{name}"))
            rows.setdefault(heading, []).append((name, line))
    width = max((len(name) for name in owners), default=0)
    parts = [f"sgl {__version__}: serve language models", _USAGE]
    for heading, lines in rows.items():
        parts.append("\n".join([f"{heading}:", *(f"  {name:<{width}}  {line}" for name, line in lines)]))
    parts.append(_EPILOG)
    return "\n\n".join(parts)


def _row(name: str, owners: list[str], found: Scan, preferred: str | None) -> tuple[str, str]:
    """Heading and help line of one command."""
    if preferred in owners:
        owners = [preferred]
    if len(owners) > 1:
        return "Conflicts", f"claimed by {' and '.join(sorted(owners))}: see `sgl doctor`"
    if owners == ["sgl-core"] and name in OWN_COMMANDS:
        return OWN_COMMANDS[name]
    from sgl_core.registry.errors import RegistryError
    from sgl_core.registry.policy import Policy
    from sgl_core.registry.registries import Registries

    policy = Policy(prefer={f"commands.{name}": owners[0]} if preferred else {})
    try:
        spec = Registries(found, policy).commands.spec(name)
    except RegistryError:
        return "Commands", f"(of {owners[0]}: cannot be loaded, see `sgl doctor`)"
    return spec.group, f"{spec.summary} ({owners[0]})"
