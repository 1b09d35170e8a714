"""The figures of one run of a scenario, what each is called, and whether more of it is better."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .measure import Record
from .scenarios import Scenario


@dataclass(frozen=True, slots=True)
class Figure:
    """A column: its title and which way is better (+1 more, -1 less, 0 neither, so that no ratio is printed)."""

    title: str
    better: int = 0


FIGURES: Mapping[str, Figure] = {
    "decode_tokens_per_s": Figure("decode tok/s", 1),
    "prompt_tokens_per_s": Figure("prompt tok/s", 1),
    "output_tokens_per_s": Figure("output tok/s", 1),
    "requests_per_s": Figure("requests/s", 1),
    "ttft_p50_ms": Figure("first token p50 ms", -1),
    "ttft_p99_ms": Figure("first token p99 ms", -1),
    "itl_p99_ms": Figure("gap p99 ms", -1),
    "cached_tokens": Figure("cached tokens"),
    "valid": Figure("valid answers"),
    "output_tokens": Figure("tokens out"),
    "rss_mb": Figure("memory MB", -1),
}


def figures(scenario: Scenario, records: Sequence[Record], seconds: float) -> dict[str, float]:
    """All figures of a run of ``seconds``; those that nothing was measured for are absent.

    ``decode_tokens_per_s`` is per stream after its first token; the prompt rate is prompt tokens over time to first
    token, so it means something for one request at a time only.
    """
    good = [record for record in records if not record.error and record.output_tokens > 0]
    out: dict[str, float] = {"requests": len(records), "failed": len(records) - len(good), "seconds": seconds}
    if not good or seconds <= 0:
        return out
    firsts = [record.last if record.first is None else record.first for record in good]
    gaps = [gap for record in good for gap in record.gaps]
    rates = [
        (record.output_tokens - 1) / (record.last - first)
        for record, first in zip(good, firsts, strict=True)
        if record.output_tokens > 1 and record.last > first
    ]
    tokens = sum(record.output_tokens for record in good)
    prompts = sum(record.prompt_tokens for record in good)
    out |= {
        "output_tokens": tokens,
        "prompt_tokens": prompts,
        "cached_tokens": sum(record.cached_tokens for record in good),
        "output_tokens_per_s": tokens / seconds,
        "requests_per_s": len(good) / seconds,
        "prompt_tokens_per_s": prompts / sum(firsts),
        "ttft_p50_ms": 1e3 * percentile(firsts, 50),
        "ttft_p99_ms": 1e3 * percentile(firsts, 99),
    }
    if rates:
        out["decode_tokens_per_s"] = statistics.mean(rates)
    if gaps:
        out["itl_p50_ms"] = 1e3 * percentile(gaps, 50)
        out["itl_p99_ms"] = 1e3 * percentile(gaps, 99)
    if scenario.schema is not None:
        out["valid"] = sum(fits(scenario.schema, record.text) for record in good)
    return out


def percentile(values: Sequence[float], percent: int) -> float:
    """Nearest rank: the smallest value that ``percent`` of all do not exceed."""
    return sorted(values)[max(0, -(-percent * len(values) // 100) - 1)]


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of every figure over the runs that have it."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: statistics.median([run[name] for run in runs if name in run]) for name in names}


def fits(schema: Mapping[str, Any], text: str) -> bool:
    """Is ``text`` JSON that satisfies ``schema``? Knows the words that ``scenarios.SCHEMA`` uses, and no others."""
    try:
        return _fits(schema, json.loads(text))
    except ValueError:
        return False


def _fits(schema: Mapping[str, Any], value: Any) -> bool:
    if "enum" in schema:
        return value in schema["enum"]
    match schema["type"]:
        case "object":
            inner = schema["properties"]
            return (
                isinstance(value, dict)
                and set(schema["required"]) <= set(value) <= set(inner)
                and all(_fits(inner[name], item) for name, item in value.items())
            )
        case "array":
            return (
                isinstance(value, list)
                and schema["minItems"] <= len(value) <= schema["maxItems"]
                and all(_fits(schema["items"], item) for item in value)
            )
        case "integer":
            whole = isinstance(value, int) and not isinstance(value, bool)
            return whole and schema["minimum"] <= value <= schema["maximum"]
        case "string":
            return isinstance(value, str) and len(value) <= schema["maxLength"]
        case "boolean":
            return isinstance(value, bool)
    raise ValueError(f"schemas of type {schema['type']!r} are not checked here")
