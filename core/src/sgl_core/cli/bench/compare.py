"""``sgl bench compare``: the same load on several OpenAI-compatible servers, in turns, and how the first fares against the others."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from sgl_core.serve.client import Client, HttpError

from .compare_view import page
from .figures import FIGURES, figures, medians
from .machine import Snapshot, cost, describe, load
from .rival import Rival
from .scenarios import SCENARIOS, Scenario, named

Report = Callable[[str], None]

EPILOG = """\
Every round plays each scenario on one server after the other, with prompts that are the same for all servers and differ
from round to round; the order turns round each time. Medians over the rounds are printed, with the first server's figure
divided by each other one's. Equal lengths come from ignore_eos and min_tokens; what a server refuses is left out, and said.

Options that take [SERVER:]VALUE hold for the server of that name, or for all:
  sgl bench compare sgl=http://127.0.0.1:30000 llama=http://127.0.0.1:8080 --pid sgl:4711 --drop llama:min_tokens

scenarios:
"""


class BadOption(Exception):
    """A command line that cannot be followed; the message says why."""


def main(argv: Sequence[str]) -> int:
    """Run the comparison; 0 where every request was answered, 1 where one failed, 2 for a wrong command line."""
    options = parser().parse_args(list(argv))
    try:
        rivals = rivals_of(options)
        scenarios = named(options.scenario)
        if options.rounds < 1:
            raise BadOption("--rounds must be at least 1")
    except (BadOption, ValueError) as error:
        print(f"sgl bench compare: {error}", file=sys.stderr)
        return 2
    if options.quick:
        scenarios = tuple(scenario.shortened() for scenario in scenarios)
    alone = options.json == "-"
    try:
        result = asyncio.run(compare(rivals, scenarios, options.rounds, options.seed, _tell))
    except HttpError as error:
        print(f"sgl bench compare: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if alone:
        print(json.dumps(result, indent=2))
    else:
        print(page(result))
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=2)
    return 1 if any(part["errors"] for part in result["scenarios"].values()) else 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def parser() -> argparse.ArgumentParser:
    lines = "".join(f"  {scenario.name:<15}{scenario.summary}\n" for scenario in SCENARIOS)
    out = argparse.ArgumentParser(
        prog="sgl bench compare",
        description="Drive several OpenAI-compatible servers with the same load, in turns, and compare the first with the others.",
        epilog=EPILOG + lines,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument(
        "servers", nargs="+", metavar="[NAME=]URL", help="a server's root, with or without /v1; the first is compared"
    )
    out.add_argument(
        "--scenario", default="all", metavar="NAME,...", help="which scenarios, in this order (default: all)"
    )
    out.add_argument("--rounds", type=int, default=3, help="how often everything is measured (default: %(default)s)")
    out.add_argument("--quick", action="store_true", help="fewer requests and shorter answers: a trial, not a result")
    out.add_argument("--seed", type=int, default=0, help="other prompts (default: %(default)s)")
    out.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="per request (default: %(default)g)"
    )
    own = out.add_argument_group("per server, [SERVER:]VALUE")
    for flag, metavar, text in (
        ("--model", "NAME", "the model's name there (default: the first it lists)"),
        ("--drop", "FIELD,...", "request fields that it refuses"),
        ("--ban-eos", "TOKEN", "token id forbidden by logit_bias, where ignore_eos is ignored"),
        ("--body", "JSON", "an object merged into every request"),
        ("--key", "KEY", "its API key"),
        ("--pid", "PID", "its process on this machine: adds memory, CPU time and what neighbours took"),
    ):
        own.add_argument(flag, action="append", default=[], metavar=f"[SERVER:]{metavar}", help=text)
    out.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write all runs as JSON to a file, or alone to stdout"
    )
    return out


def rivals_of(options: argparse.Namespace) -> list[Rival]:
    """The servers with their own options. Raises BadOption."""
    rivals: dict[str, Rival] = {}
    for text in options.servers:
        name, equals, url = text.partition("=") if "://" not in text.partition("=")[0] else ("", "", text)
        url = url if equals else text
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadOption(f"{text!r} is not [NAME=]URL with an http:// or https:// address")
        name = name if equals else parts.netloc
        if not name or name in rivals:
            raise BadOption(f"the name {name!r} stands for two servers; write NAME=URL")
        rivals[name] = Rival(name=name, client=Client(url=url), seconds=options.timeout)
    for rival, model in _meant(options.model, rivals):
        rival.model = model
    for rival, listed in _meant(options.drop, rivals):
        fields = [field.strip() for field in listed.split(",") if field.strip()]
        for field in fields:
            if not field.isidentifier():
                raise BadOption(f"--drop {field!r}: neither a request field nor SERVER:FIELD with the name of a server")
        rival.drop.update(fields)
    for rival, token in _meant(options.ban_eos, rivals):
        rival.ban_eos = _whole(token, "--ban-eos")
    for rival, pid in _meant(options.pid, rivals):
        rival.pid = _whole(pid, "--pid")
        if len([other for other in rivals.values() if other.pid == rival.pid]) > 1:
            raise BadOption(f"--pid {pid}: say whose it is, --pid SERVER:{pid}")
    for rival, key in _meant(options.key, rivals):
        rival.client = Client(url=rival.client.url, api_key=key)
    for rival, body in _meant(options.body, rivals):
        rival.extra = {**rival.extra, **_object(body)}
    return list(rivals.values())


def _meant(values: Sequence[str], rivals: Mapping[str, Rival]) -> list[tuple[Rival, str]]:
    """(server, value) for each value: of the server it names (the longest name that fits), else of all."""
    out: list[tuple[Rival, str]] = []
    for value in values:
        owners = [name for name in rivals if value.startswith(name + ":")]
        if owners:
            name = max(owners, key=len)
            out.append((rivals[name], value[len(name) + 1 :]))
        else:
            out += [(rival, value) for rival in rivals.values()]
    return out


def _whole(text: str, flag: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadOption(f"{flag} {text!r}: neither a number nor SERVER:NUMBER with the name of a server") from None


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BadOption(f"--body {text!r}: neither a JSON object nor SERVER:OBJECT with the name of a server")
    return value


async def compare(
    rivals: Sequence[Rival], scenarios: Sequence[Scenario], rounds: int, seed: int, tell: Report
) -> dict[str, Any]:
    """Measure everything; the result is plain data (``page`` prints it). Raises HttpError where a server does not serve."""
    notes = [note for rival in rivals for note in await rival.prepare()]
    for note in notes:
        tell(note)
    runs: dict[str, dict[str, list[dict[str, float]]]] = {
        scenario.name: {rival.name: [] for rival in rivals} for scenario in scenarios
    }
    errors: dict[str, dict[str, dict[str, int]]] = {scenario.name: {} for scenario in scenarios}
    machine = describe()
    for number in range(rounds):
        order = list(rivals) if number % 2 == 0 else list(reversed(rivals))
        for scenario in scenarios:
            for rival in order:
                run, failed = await measured(rival, scenario, f"{seed}/{number}")
                runs[scenario.name][rival.name].append(run)
                for message, count in failed.items():
                    mine = errors[scenario.name].setdefault(rival.name, {})
                    mine[message] = mine.get(message, 0) + count
                lead = scenario.shows[0]
                value = f"{run[lead]:.4g}" if lead in run else "nothing"
                tell(f"round {number + 1} of {rounds}: {scenario.name}, {rival.name}: {value} {FIGURES[lead].title}")
    names = [rival.name for rival in rivals]
    return {
        "machine": {**machine, "load_after": load()},
        "rounds": rounds,
        "seed": seed,
        "servers": {rival.name: {"url": rival.client.url, "model": rival.model} for rival in rivals},
        "notes": notes,
        "scenarios": {
            scenario.name: summed(scenario, runs[scenario.name], errors[scenario.name], names) for scenario in scenarios
        },
    }


async def measured(rival: Rival, scenario: Scenario, seed: str) -> tuple[dict[str, float], dict[str, int]]:
    """One run: its figures, and its errors by message."""
    before = Snapshot.take(rival.pid)
    records, seconds = await rival.play(scenario, seed)
    after = Snapshot.take(rival.pid)
    run = {**figures(scenario, records, seconds), **cost(before, after, seconds), "load": load()}
    failed: dict[str, int] = {}
    for record in records:
        if record.error or not record.output_tokens:
            message = record.error or "an answer without tokens"
            failed[message] = failed.get(message, 0) + 1
    return run, failed


def summed(
    scenario: Scenario,
    runs: Mapping[str, Sequence[Mapping[str, float]]],
    errors: Mapping[str, Mapping[str, int]],
    names: Sequence[str],
) -> dict[str, Any]:
    """Medians of each server, and the first server's divided by each other one's, of figures that can be better."""
    middle = {name: medians(runs[name]) for name in names}
    first = middle[names[0]]
    ratios = {
        name: {
            figure: first[figure] / middle[name][figure]
            for figure, about in FIGURES.items()
            if about.better and first.get(figure) and middle[name].get(figure)
        }
        for name in names[1:]
    }
    wanted = scenario.output * scenario.chats * scenario.turns if scenario.schema is None else None
    return {
        "summary": scenario.summary,
        "shows": list(scenario.shows),
        "output_tokens_wanted": wanted,
        "medians": middle,
        "ratios": ratios,
        "runs": {name: [dict(run) for run in runs[name]] for name in names},
        "errors": {name: dict(found) for name, found in errors.items()},
    }
