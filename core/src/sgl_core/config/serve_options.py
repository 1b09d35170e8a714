"""What the commands that take serving options share: help, registries under the operator's plugin policy, checked ServerArgs.

The declarations of the options are imported where they are read: `sgl serve` starts its worker before.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .errors import ConfigError

if TYPE_CHECKING:
    from .server_args import ServerArgs


def wants_help(argv: Sequence[str]) -> list[str] | None:
    """The words after ``--help`` or ``-h`` (none: the whole page), or None where help is not asked for."""
    for at, word in enumerate(argv):
        if word in ("-h", "--help"):
            return [after for after in argv[at + 1 :] if not after.startswith("--")]
        if word.startswith("--help="):
            return [word.partition("=")[2]]
        if word == "--":
            return None
    return None


def serve_help(words: Sequence[str], registries: Any) -> str:
    """The help page at the terminal's width. Raises LookupError where no flag is about the words."""
    from .option_help import help_page

    return help_page(registries, words, shutil.get_terminal_size((100, 40)).columns)


def registries_for(asked: ServerArgs) -> Any:
    """The registries under the plugin policy in ``asked``. Raises RegistryError for a policy that cannot be followed."""
    from sgl_core.registry import Registries

    return Registries.discover(
        allow=asked.plugins_allow or (),
        deny=asked.plugins_deny or (),
        prefer=asked.prefer or (),
        safe_mode=asked.safe_mode,
    )


def discover(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Any:
    """The registries under the plugin policy in a command line, environment and config file.

    The options are read without any registry first, and as far as a request for help only. Raises ConfigError for wrong
    ones, RegistryError as :func:`registries_for` does.
    """
    from .server_args import ServerArgs

    help_at = next((at for at, word in enumerate(argv) if word.partition("=")[0] in ("-h", "--help")), len(argv))
    asked = list(argv[:help_at]) if wants_help(argv) is not None else list(argv)
    return registries_for(ServerArgs.from_sources(cli=asked, env=os.environ if env is None else env))


def parse_serve_argv(argv: Sequence[str], registries: Any = None, env: Mapping[str, str] | None = None) -> ServerArgs:
    """The options of ``sgl serve`` (one positional word is MODEL) with environment and ``--config`` file, checked.

    ``registries`` default to :func:`discover`; ``env`` to the process environment. Raises :class:`ConfigError`.
    """
    from .server_args import ServerArgs

    env = os.environ if env is None else env
    if registries is None:
        registries = discover(argv, env)
    return ServerArgs.from_sources(cli=list(argv), env=env, registries=registries)


__all__ = ["ConfigError", "discover", "parse_serve_argv", "registries_for", "serve_help", "wants_help"]
