"""How ``sgl explain`` looks on a terminal: tables by rich, in this subcommand only."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sgl_core.config.choices import offered
from sgl_core.config.explanation import Outcome, differences, overview, short, story
from sgl_core.config.fields import fields
from sgl_core.config.served import coverage, parts_of, serving


def console() -> Console:
    """The terminal; wide enough for the tables where the output goes to a file."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=140)


def show_outcome(outcome: Outcome, names: list[str], note: str, *, whole: bool, registries: Any) -> None:
    """The overview, or the stories of single fields; then warnings, the workers' environment, the refusal."""
    out = console()
    facts = outcome.facts
    count = f"{facts.device_count} x " if facts.device_count > 1 else ""
    memory = f", {facts.device_memory_mib / 1024:.0f} GiB each" if facts.device_memory_mib else ""
    out.print(
        f"[bold]{escape(outcome.model.architecture)}[/] on {count}{escape(facts.device_name or facts.platform)}{memory}"
    )
    if note:
        out.print(f"Note: {escape(note)}")
    if names:
        for name in names:
            show_declaration(out, name, registries)
            show_story(out, outcome, name)
    elif whole:
        for row in overview(outcome):
            out.print(f"\n[bold]{row.field}[/] = {escape(row.value)}")
            show_story(out, outcome, row.field)
    else:
        out.print(overview_table(outcome))
    resolution = outcome.resolution
    if resolution is not None:
        for name, value in resolution.env.items():
            out.print(f"Workers start with {escape(name)}={escape(value)}")
    for warning in resolution.warnings if resolution is not None else outcome.args.warnings:
        out.print(f"[yellow]Warning:[/] {escape(warning)}")
    if outcome.refusal is not None:
        out.print(f"[bold red]Refused:[/] {escape(str(outcome.refusal))}")
    elif not names and not whole:
        out.print("`sgl explain MODEL FIELD` tells one field's whole story; `--why` that of all.")


def overview_table(outcome: Outcome) -> Table:
    """One row for each field that somebody decided, with subjects as headings."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for title in ("field", "value", "was", "decided by", "because"):
        table.add_column(title, overflow="fold", no_wrap=title == "field")
    subject = ""
    for row in overview(outcome):
        if row.subject != subject:
            subject = row.subject
            table.add_row(f"[dim]{subject}[/]")
        table.add_row(*(escape(text) for text in (row.field, row.value, row.was, row.who, row.why)))
    return table


def show_story(out: Console, outcome: Outcome, name: str) -> None:
    """A field's story, indented."""
    for line in story(outcome, name):
        out.print(f"  {escape(line)}")


def show_declaration(out: Console, name: str, registries: Any) -> None:
    """What a field is: help, spellings, choices, default, who acts on it."""
    declared = fields()[name]
    out.print(
        f"\n[bold]{name}[/]  {escape(declared.type_text)}  ({declared.subject}, config.{declared.namespace}.{name})"
    )
    out.print(f"  {escape(declared.help)}")
    spelled = [declared.flag, *declared.aliases] if declared.cli else ["(no flag)"]
    out.print(f"  written: {', '.join(spelled)}; {declared.env}; {name}: in a config file")
    choices = offered(registries, declared)
    if choices:
        out.print(f"  choices: {', '.join(escape(str(choice)) for choice in choices)}")
    served = serving(parts_of(registries)).get(name)
    who = ", ".join(part.label for part in served.parts) if served is not None else "nobody here: setting it is refused"
    out.print(f"  acted on by: {escape(who)}")
    if declared.replaced_by:
        out.print(f"  deprecated: use {escape(declared.replaced_by)}")


def show_fields(names: list[str], registries: Any, *, as_json: bool) -> int:
    """The declarations of fields, without a model."""
    if as_json:
        described = [describe(name, registries) for name in names or fields()]
        print(json.dumps(described, indent=2, default=str))
        return 0
    out = console()
    for name in names:
        show_declaration(out, name, registries)
        out.print(f"  default: {escape(short(fields()[name].default))}")
    if not names:
        out.print(
            "Name a MODEL to see how its configuration comes about, or a FIELD to see what it is; `sgl explain --help`."
        )
    return 0


def describe(name: str, registries: Any) -> dict[str, Any]:
    """A field's declaration as plain data."""
    declared = fields()[name]
    return {
        "name": name,
        "type": declared.type_text,
        "default": declared.default,
        "help": declared.help,
        "subject": declared.subject,
        "namespace": declared.namespace,
        "flags": [declared.flag, *declared.aliases] if declared.cli else [],
        "env": declared.env,
        "choices": list(offered(registries, declared) or ()),
        "deprecated": declared.replaced_by,
    }


def show_differences(here: Outcome, there: Outcome, names: list[str], *, as_json: bool) -> int:
    """What comes out differently on another machine; 1 where either refuses."""
    rows = [row for row in differences(here, there) if not names or row[0] in names]
    titles = (here.facts.name or here.facts.platform, there.facts.name or there.facts.platform)
    refusals = [(title, o.refusal) for title, o in zip(titles, (here, there), strict=True) if o.refusal is not None]
    if as_json:
        fields_ = [{"field": f, titles[0]: a, titles[1]: b, "because": why} for f, a, b, why in rows]
        print(json.dumps({"differences": fields_, "refused": {t: str(r) for t, r in refusals}}, indent=2))
        return 1 if refusals else 0
    out = console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("field", *titles, f"because (on {titles[1]})"):
        table.add_column(title, overflow="fold", no_wrap=title == "field")
    for row in rows:
        table.add_row(*(escape(text) for text in row))
    out.print(table if rows else f"{titles[0]} and {titles[1]} come out the same.")
    for title, refusal in refusals:
        out.print(f"[bold red]Refused on {escape(title)}:[/] {escape(str(refusal))}")
    return 1 if refusals else 0


def show_coverage(registries: Any, *, as_json: bool, names: bool) -> int:
    """Which fields are served, by subject."""
    found = coverage(parts_of(registries))
    if as_json:
        print(
            json.dumps({s: {"served": served, "refused": refused} for s, (served, refused) in found.items()}, indent=2)
        )
        return 0
    out = console()
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=True)
    served_sum = sum(len(served) for served, _ in found.values())
    refused_sum = sum(len(refused) for _, refused in found.values())
    table.add_column("subject", footer="all")
    table.add_column("served", justify="right", footer=str(served_sum))
    table.add_column("refused", justify="right", footer=str(refused_sum))
    if names:
        table.add_column("served fields", overflow="fold")
    for subject, (served, refused) in found.items():
        table.add_row(subject, str(len(served)), str(len(refused)), *([", ".join(served)] if names else []))
    out.print(table)
    return 0
