"""``sgl`` itself: help, version, unknown commands, third-party commands, and what it does not import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from sgl_core import __version__
from sgl_core.cli.commands import OWN_COMMANDS
from sgl_core.cli.main import help_text, main
from sgl_core.testing.fake_dists import fake_dist, fake_dists

NOT_FOR_HELP = (
    "click",
    "typer",
    "rich",
    "numpy",
    "msgspec",
    "pluggy",
    "pydantic",
    "importlib.metadata",
    "sgl_core.api",
)


def test_help_lists_every_own_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    page = capsys.readouterr().out
    for name, (heading, line) in OWN_COMMANDS.items():
        assert f"  {name} " in page
        assert line in page
        assert f"{heading}:" in page
    assert main([]) == 0
    assert capsys.readouterr().out == page


def test_help_with_many_plugins_imports_nothing_heavy_and_no_plugin(tmp_path: Path) -> None:
    fake_dists(tmp_path, 100)
    code = dedent(f"""
        import sys, json
        sys.path.append({str(tmp_path)!r})
        from sgl_core.cli.main import main
        assert main(["--help"]) == 0
        print(json.dumps(sorted(sys.modules)))
    """)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(run.stdout.splitlines()[-1])
    assert [name for name in modules if name in NOT_FOR_HELP or name.startswith("fake_plugin_")] == []


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"sgl {__version__}"


def test_unknown_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serv"]) == 2
    assert "there is no command 'serv'; did you mean serve?" in capsys.readouterr().err
    assert main(["--fast"]) == 2
    assert "there is no option --fast" in capsys.readouterr().err


COMMANDS = dedent("""
    import click
    import typer
    from sgl_core.api import CommandSpec
    PLAIN = CommandSpec(name="greet", target="acme_commands:greet", summary="Say hello", group="Acme")
    CLICK = CommandSpec(name="clicked", target="acme_commands:clicked", summary="A click command")
    TYPER = CommandSpec(name="typed", target="acme_commands:typed", summary="A typer application")
    NEEDY = CommandSpec(name="needy", target="acme_commands:greet", requires=("not-there",))
    def greet(argv):
        print("hello", *argv)
        return 3
    @click.command()
    @click.option("--n", type=int)
    def clicked(n): print("clicked", n)
    typed = typer.Typer()
    @typed.command()
    def run(n: int): print("typed", n)
""")


@pytest.fixture
def acme(site: Path) -> Path:
    entries = {"greet": "acme_commands:PLAIN", "clicked": "acme_commands:CLICK", "typed": "acme_commands:TYPER"}
    entries |= {"needy": "acme_commands:NEEDY", "stale": "acme_gone:SPEC"}
    fake_dist(site, "acme", "1.0", {"commands": entries}, {"acme_commands.py": COMMANDS})
    return site


def test_third_party_commands_run(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["greet", "you"]) == 3
    assert capsys.readouterr().out == "hello you\n"
    for name, args in (("clicked", ["--n", "4"]), ("typed", ["4"])):
        try:
            status = main([name, *args])
        except SystemExit as stop:
            status = int(stop.code or 0)
        assert status == 0
        assert capsys.readouterr().out == f"{name} 4\n"


def test_third_party_commands_stand_in_help_with_their_owner(acme: Path) -> None:
    page = help_text({})
    assert "Acme:\n  greet" in page
    assert "Say hello (acme)" in page
    assert "(of acme: cannot be loaded, see `sgl doctor`)" in page
    assert "greet" not in help_text({"SGL_SAFE_MODE": "1"})


def test_commands_that_cannot_run_say_why(acme: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["needy"]) == 1
    assert "not-there is not installed; pip install not-there" in capsys.readouterr().err
    assert main(["stale"]) == 1
    assert "'stale' of acme 1.0 cannot be loaded: there is no module 'acme_gone'" in capsys.readouterr().err


def test_a_command_of_two_owners_stops_with_both_named(
    acme: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_dist(acme, "rival", "2.0", {"commands": {"serve": "acme_commands:PLAIN", "greet": "acme_commands:PLAIN"}})
    assert main(["serve"]) == 1
    error = capsys.readouterr().err
    assert "claimed by rival 2.0 and sgl-core" in error
    assert "SGL_PREFER" in error
    assert "claimed by acme and rival" in help_text({})
    monkeypatch.setenv("SGL_PREFER", "commands.greet=rival")
    assert main(["greet", "again"]) == 3


def test_the_traceback_of_a_plugins_own_failure_is_shown(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "from sgl_core.api import CommandSpec\nS = CommandSpec(name='bad', target='bad_target_module:main')\n"
    modules = {"bad_specs.py": body, "bad_target_module.py": "import no_such_library\n"}
    fake_dist(site, "acme", "1.0", {"commands": {"bad": "bad_specs:S"}}, modules)
    assert main(["bad"]) == 1
    error = capsys.readouterr().err
    assert "it needs the module 'no_such_library'" in error
    assert "bad_target_module.py" in error
