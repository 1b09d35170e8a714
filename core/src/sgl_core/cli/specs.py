"""The specs of sgl's own commands (registry ``commands``); each target is the module of the command's name."""

from sgl_core.api.specs import CommandSpec

from .commands import OWN_COMMANDS


def _command(name: str) -> CommandSpec:
    group, summary = OWN_COMMANDS[name]
    return CommandSpec(name=name, target=f"sgl_core.cli.{name}:main", summary=summary, group=group)


SERVE = _command("serve")
GENERATE = _command("generate")
CHAT = _command("chat")
BENCH = _command("bench")
EXPLAIN = _command("explain")
FACTS = _command("facts")
PLUGIN = _command("plugin")
DOCTOR = _command("doctor")
