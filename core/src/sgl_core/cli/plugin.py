"""``sgl plugin``: list, show, check and lock installed plugins."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from sgl_core.registry.errors import RegistryError, describe
from sgl_core.registry.lock import LOCK_FILE, differences, read_lock, write_lock
from sgl_core.registry.policy import Policy
from sgl_core.registry.registries import Registries
from sgl_core.registry.report import list_data, show_data
from sgl_core.registry.scan import scan


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 on success, 1 for a finding or a failure, 2 for a wrong command line."""
    try:
        return int(plugin.main(args=list(argv), prog_name="sgl plugin", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    except RegistryError as error:
        click.echo(f"sgl plugin: {describe(error)}", err=True)
        return 1


def policy_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that decide which distributions take part."""
    for option in (
        click.option("--plugins-allow", multiple=True, metavar="DIST", help="Use only these third-party packages."),
        click.option("--plugins-deny", multiple=True, metavar="DIST", help="Leave these packages out."),
        click.option("--prefer", multiple=True, metavar="REGISTRY.NAME=DIST", help="Decide a name that several claim."),
        click.option("--safe-mode", is_flag=True, help="Use first-party packages only."),
    ):
        function = option(function)
    return function


def discover(
    plugins_allow: tuple[str, ...], plugins_deny: tuple[str, ...], prefer: tuple[str, ...], safe_mode: bool
) -> Registries:
    """The registries under the options, with the environment's policy where an option is not given."""
    env = Policy.from_env(os.environ)
    policy = Policy.of(
        plugins_allow or env.allow, plugins_deny or env.deny, prefer or env.prefer, safe_mode or env.safe_mode
    )
    return Registries(scan(), policy)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def plugin() -> None:
    """List, show, check and lock installed plugins."""


@plugin.command("list")
@click.option("--registry", metavar="NAME", help="Only this registry.")
@click.option("--dist", metavar="DIST", help="Only what this package offers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@policy_options
def list_command(registry: str | None, dist: str | None, as_json: bool, **policy: Any) -> int:
    """Every entry of every installed package, with its state."""
    data = list_data(discover(**policy), registry, dist)
    if as_json:
        click.echo(json.dumps(data, indent=2))
    else:
        _print_table(data)
    return 0


@plugin.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@policy_options
def show_command(name: str, as_json: bool, **policy: Any) -> int:
    """All that is known of the entries called NAME (or REGISTRY.NAME)."""
    rows = show_data(discover(**policy), name)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        click.echo(f"{row['registry']}.{row['name']}  of {row['dist']} {row['version']}: {row['state']}")
        if row["why"]:
            click.echo(f"  why: {row['why']}")
        click.echo(f"  entry: [{row['group']}] {row['entry']}")
        for key, value in (row["spec"] or {}).items():
            if key == "options":
                for option in value:
                    click.echo(
                        f"  option: --plugin-option {option['name']}={option['type']} (default {option['default']})  {option['help']}"
                    )
            elif key != "name" and value not in ("", [], {}, None):
                click.echo(f"  {key}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
    return 0


@plugin.command("check")
@click.argument("dist")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_command(dist: str, as_json: bool) -> int:
    """Run the conformance checks for plugin authors on an installed package."""
    from sgl_core.testing.kit import check_dist

    findings = check_dist(dist)
    if as_json:
        click.echo(json.dumps([{"entry": f.entry, "problem": f.problem} for f in findings], indent=2))
    else:
        for finding in findings:
            click.echo(f"{finding.entry}: {finding.problem}")
        click.echo(f"{dist}: {len(findings)} problem(s)" if findings else f"{dist}: in order")
    return 1 if findings else 0


@plugin.command("lock")
@click.option(
    "--file", "file", type=click.Path(path_type=Path), default=Path(LOCK_FILE), show_default=True, help="The lock file."
)
@click.option("--check", is_flag=True, help="Compare with the lock file instead of writing it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@policy_options
def lock_command(file: Path, check: bool, as_json: bool, **policy: Any) -> int:
    """Write versions and content hashes of all plugins to a lock file, or compare with it."""
    registries = discover(**policy)
    if check:
        found = differences(registries, read_lock(file))
        click.echo(json.dumps(found, indent=2) if as_json else "\n".join(found) or f"{file}: nothing differs")
        return 1 if found else 0
    data = write_lock(registries, file)
    if as_json:
        click.echo(json.dumps(data, indent=2))
        return 0
    click.echo(f"{file}: {len(data['dists'])} packages locked; start with --locked to insist on them")
    for name, item in data["dists"].items():
        if item.get("editable"):
            click.echo(f"  {name} is an editable installation: its source may change unseen")
    return 0


def _print_table(data: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    table = Table(box=None, pad_edge=False)
    for heading in ("registry", "name", "package", "state", "summary"):
        table.add_column(heading, overflow="fold")
    last = ""
    for row in data["entries"]:
        state = row["state"] if row["state"] == "ok" else f"{row['state']}: {row['why']}"
        shown = row["registry"] if row["registry"] != last else ""
        table.add_row(shown, row["name"], f"{row['dist']} {row['version']}", state, row["summary"])
        last = row["registry"]
    console.print(table)
    for problem in data["problems"]:
        console.print(f"problem: {problem}", markup=False)
