"""``sgl serve``: read the options and start the server; every refusal is one message and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from sgl_core.config.errors import ConfigError, RuleError
from sgl_core.config.serve_options import discover, parse_serve_argv, serve_help, wants_help
from sgl_core.registry.errors import RegistryError, describe

if TYPE_CHECKING:
    from sgl_core.config.server_args import ServerArgs
    from sgl_core.engine.worker_process import WorkerProcess
    from sgl_core.registry import Registries


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 after a clean end, 1 where it cannot serve, 2 for a wrong command line."""
    with ExitStack() as ending:
        try:
            words = wants_help(argv)
            if words is not None:
                print(serve_help(words, discover(argv)))
                return 0
            worker = ending.enter_context(_started())
            registries = discover(argv)
            args = parse_serve_argv(argv, registries)
        except (ConfigError, LookupError) as error:
            return refused("sgl serve", error, 2)
        except RegistryError as error:
            return refused("sgl serve", error)
        return guarded("sgl serve", lambda: _serve(args, registries, worker))


def _started() -> closing[WorkerProcess]:
    """A worker process, first of all: its imports take longest."""
    from sgl_core.engine.worker_process import WorkerProcess

    return closing(WorkerProcess())


def _serve(args: ServerArgs, registries: Registries, worker: WorkerProcess) -> int:
    from sgl_core.serve.launch import serve  # help and refusals do not wait for it

    return serve(args, registries, worker)


def guarded(command: str, run: Callable[[], int]) -> int:
    """Run, and turn what an operator can mend into a message. Anything else is a fault of ours and keeps its traceback."""
    try:
        return run()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if not isinstance(error, _mendable()):
            raise
        return refused(command, error)


def _mendable() -> tuple[type[Exception], ...]:
    # Slow imports, which a start that succeeds has no need of here.
    from sgl_core.checkpoint import CheckpointError, TokenizerError
    from sgl_core.serve.core.templates import TemplateError

    return ConfigError, RuleError, RegistryError, CheckpointError, TokenizerError, TemplateError


def refused(command: str, error: Exception, status: int = 1) -> int:
    """Print a refusal."""
    text = describe(error) if isinstance(error, RegistryError) else str(error)
    print(f"{command}: {text}", file=sys.stderr)
    return status
