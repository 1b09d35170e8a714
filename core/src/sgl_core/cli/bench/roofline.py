"""``sgl bench roofline``: loads the model here and has its worker measure the machine and the share of it that each kind of step reaches."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from sgl_core.config.errors import ConfigError
from sgl_core.config.serve_options import discover, parse_serve_argv
from sgl_core.registry.errors import RegistryError

from ..serve import guarded, refused
from .compare_view import number, table

_NAME = "sgl bench roofline"


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 on success, 1 where the model cannot be served or the platform cannot measure, 2 for a wrong command line."""
    options, rest = parser().parse_known_args(list(argv))
    try:
        registries = discover(rest)
        args = parse_serve_argv(rest, registries)
    except (ConfigError, ValueError, OSError) as error:
        return refused(_NAME, error, 2)
    except RegistryError as error:
        return refused(_NAME, error)
    return guarded(_NAME, lambda: _run(args, registries, options.json))


def parser() -> argparse.ArgumentParser:
    """The command's own options; all others are those of ``sgl serve``."""
    out = argparse.ArgumentParser(
        prog=_NAME,
        usage=f"{_NAME} [MODEL] [--json] [options of sgl serve]",
        description="Measure this machine's memory bandwidth and arithmetic, and the share of them that decode, prefill, "
        "attention and sampling of MODEL reach. Other work on the machine makes every figure worse: the load is printed.",
        allow_abbrev=False,
    )
    out.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    return out


def _run(args: Any, registries: Any, as_json: bool) -> int:
    from sgl_core.serve.prepare import prepare

    plan = prepare(args, registries).plan
    os.environ.update(plan.env)
    worker = plan.runtime(registries).make_worker(0)
    try:
        worker.load(lambda what, done, total: None)
        result = {"processor": plan.facts.device_name, "load": round(os.getloadavg()[0], 2)}
        result |= worker.control("roofline", {})
    except KeyError:
        return refused(_NAME, ValueError(f"the worker of the platform {plan.facts.platform!r} cannot measure itself"))
    finally:
        worker.close()
    print(json.dumps(result) if as_json else page(result))
    return 0


def page(result: Mapping[str, Any]) -> str:
    """The figures for people: a share is of the machine's own limit, measured just before."""
    read, multiply = result["read_gb_s"], result["fp32_gflop_s"]
    rows = [
        (
            row["what"],
            [
                number(row["ms"]),
                number(row["tokens_s"]),
                number(row["gb_s"]),
                _share(row["gb_s"], read),
                number(row["gflop_s"]),
                _share(row["gflop_s"], multiply),
                "",
            ],
        )
        for row in result["rows"]
    ]
    return "\n".join(
        [
            f"{result['processor']}, {result['threads']} threads, load {result['load']} before",
            f"limits: {number(read)} GB/s read, {number(multiply)} GFLOP/s of fp32 multiply-adds (fp32 matrix product)",
            "",
            *table(["ms", "tokens/s", "GB/s", "of limit", "GFLOP/s", "of limit", ""], rows),
            "",
            "Bytes and operations are those a step needs at least; weights in few bits are multiplied in integers, which are "
            "faster than the fp32 limit.",
        ]
    )


def _share(value: float | None, limit: float) -> str:
    return "-" if value is None else f"{value / limit:.0%}"
