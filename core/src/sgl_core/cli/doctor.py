"""``sgl doctor``: is this installation in order, and if not, what to do."""

from __future__ import annotations

import json
import os
import platform as python_platform
import sys
from collections.abc import Sequence
from typing import Any

import click

from sgl_core import __version__
from sgl_core.registry.errors import RegistryError, describe
from sgl_core.registry.platform import probe
from sgl_core.registry.policy import Policy
from sgl_core.registry.registries import Registries
from sgl_core.registry.report import list_data
from sgl_core.registry.scan import scan

OPTIONAL_PACKAGES = {
    "uvloop": ("a faster event loop for `sgl serve`", "pip install 'sgl-core[fast]'"),
    "httptools": ("a faster HTTP parser for `sgl serve`", "pip install 'sgl-core[fast]'"),
    "transformers": ("tokenizers that have no fast form", "pip install transformers"),
}
"""Packages that sgl uses where they are installed: what they bring, how to get them."""

_NEEDED = {
    "platforms": "no platform is installed, so nothing can run a model",
    "models": "no model architecture is installed",
    "attention": "no attention backend is installed",
}


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 when nothing is wrong, 1 with findings, 2 for a wrong command line."""
    try:
        return int(doctor.main(args=list(argv), prog_name="sgl doctor", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except RegistryError as error:
        click.echo(f"sgl doctor: {describe(error)}", err=True)
        return 1


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--load", is_flag=True, help="Also import every entry's implementation (slow).")
def doctor(as_json: bool, load: bool) -> int:
    """Check Python, packages, plugins and devices, and say what to do."""
    data = diagnose(Registries(scan(), Policy.from_env(os.environ)), load=load)
    click.echo(json.dumps(data, indent=2)) if as_json else _print(data)
    return 1 if data["faults"] else 0


def diagnose(registries: Registries, load: bool = False) -> dict[str, Any]:
    """Everything the doctor knows, as JSON data. ``faults`` are what is wrong, ``advice`` what would help."""
    listed = list_data(registries)
    entries = listed["entries"]
    if load:
        for row in entries:
            if row["state"] == "ok" and row["target"]:
                _try_load(registries, row)
    platforms = [_probe_row(registries, name) for name in registries.platforms.names()]
    optional = [
        {
            "package": name,
            "for": purpose,
            "version": registries.installed[name].version if name in registries.installed else "",
            "install": install,
        }
        for name, (purpose, install) in OPTIONAL_PACKAGES.items()
    ]
    faults = list(registries.problems)
    faults += dict.fromkeys(
        row["why"]
        if row["state"] == "conflict"
        else f"{row['registry']} {row['name']!r} of {row['dist']}: {row['why']}"
        for row in entries
        if row["state"] in ("failed", "conflict")
    )
    faults += [f"platform {row['name']}: {row['why']}" for row in platforms if row["state"] == "failed"]
    return {
        "sgl": __version__,
        "python": {
            "version": python_platform.python_version(),
            "executable": sys.executable,
            "system": python_platform.platform(),
        },
        "dists": listed["dists"],
        "entries": entries,
        "platforms": platforms,
        "optional": optional,
        "faults": faults,
        "advice": _advice(registries, listed, optional),
    }


def _try_load(registries: Registries, row: dict[str, Any]) -> None:
    try:
        registries[row["registry"]].load(row["name"])
    except RegistryError as error:
        row["state"], row["why"] = "failed", str(error)


def _probe_row(registries: Registries, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "state": "absent", "why": "found no device", "device": ""}
    try:
        facts = probe(registries, name)
    except RegistryError as error:
        return {**row, "state": "failed", "why": str(error)}
    if facts is None:
        return row
    memory = f", {facts.device_memory_mib:,.0f} MiB" if facts.device_memory_mib else ""
    device = f"{facts.device_count or 1} x {facts.device_name or facts.device or name}{memory}"
    return {**row, "state": "found", "why": "", "device": device}


def _advice(registries: Registries, listed: dict[str, Any], optional: list[dict[str, Any]]) -> list[str]:
    advice = []
    for name, lack in _NEEDED.items():
        usable = [n for n in registries[name].names() if not (name == "platforms" and n == "null")]
        if not usable:
            advice.append(f"{lack}: install {registries[name].info.install}")
    advice += [
        f"{row['registry']} {row['name']!r} of {row['dist']} is unavailable: {row['why']}"
        for row in listed["entries"]
        if row["state"] == "unavailable" and "pip install" in row["why"]
    ]
    strays = [
        f"{row['name']} {row['version']}"
        for row in listed["dists"]
        if row["first_party"] and row["version"] != __version__
    ]
    if strays:
        advice.append(
            f"{', '.join(strays)} beside sgl-core {__version__}: our packages move together, upgrade them together"
        )
    missing: dict[str, list[str]] = {}
    for row in optional:
        if not row["version"]:
            missing.setdefault(row["install"], []).append(f"{row['package']} ({row['for']})")
    advice += [f"not installed: {', '.join(names)}: {install}" for install, names in missing.items()]
    return advice


def _print(data: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)

    def section(title: str, rows: list[tuple[str, ...]]) -> None:
        if rows:
            console.print(f"\n[bold]{title}[/bold]")
            table = Table(box=None, show_header=False, pad_edge=False)
            for row in rows:
                table.add_row(*(text.replace("[", "\\[") for text in row))
            console.print(table)

    python = data["python"]
    console.print(
        f"sgl {data['sgl']}, Python {python['version']} ({python['executable']}) on {python['system']}", markup=False
    )
    section(
        "Packages",
        [
            (row["name"], row["version"], row["excluded"] or ("editable" if row["editable"] else ""))
            for row in data["dists"]
        ],
    )
    section(
        "Platforms",
        [(row["name"], row["state"], row["device"] or row["why"].splitlines()[0]) for row in data["platforms"]],
    )
    counts: dict[str, list[str]] = {}
    for row in data["entries"]:
        label = row["name"] if row["state"] == "ok" else f"{row['name']} ({row['state']}: {row['why'].splitlines()[0]})"
        counts.setdefault(row["registry"], []).append(label)
    section("Entries", [(registry, ", ".join(names)) for registry, names in counts.items()])
    section("Wrong", [(text,) for text in data["faults"]])
    section("Advice", [(text,) for text in data["advice"]])
    if not data["faults"]:
        console.print("\nNothing is wrong.")
