"""One request measured, many requests summed up: times to first token, gaps, throughput, percentiles."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sgl_core.serve.client import Client, HttpError

PERCENTILES = (50, 90, 99)


@dataclass(slots=True)
class Record:
    """Times in seconds from the moment the request was sent. ``gaps`` lie between the events that brought text.

    ``output_tokens`` is what the server's usage says; a server that sends none has its events with text counted, and
    ``counted`` is true.
    """

    sent: float
    first: float | None = None
    last: float = 0.0
    gaps: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    counted: bool = False
    text: str = ""
    error: str = ""


async def measure(client: Client, path: str, body: dict[str, Any]) -> Record:
    """Send one streamed request and time what comes."""
    record = Record(sent=time.perf_counter())
    before = record.sent
    pieces: list[str] = []
    usage: dict[str, Any] = {}
    try:
        async for data in client.stream(path, body):
            now = time.perf_counter()
            event = json.loads(data)
            if event.get("error"):
                record.error = _message(event["error"])
                break
            usage = event.get("usage") or usage
            brought = [_text(choice) for choice in event.get("choices") or ()]
            if not any(brought):
                continue
            pieces += brought
            if record.first is None:
                record.first = now - record.sent
            else:
                record.gaps.append(now - before)
            before = now
    except (HttpError, ValueError) as error:
        record.error = str(error) or type(error).__name__
    record.last = time.perf_counter() - record.sent
    record.text = "".join(pieces)
    record.counted = "completion_tokens" not in usage
    record.prompt_tokens = usage.get("prompt_tokens") or 0
    record.output_tokens = (
        len(record.gaps) + (record.first is not None) if record.counted else usage["completion_tokens"]
    )
    record.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return record


def _message(error: Any) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


def _text(choice: dict[str, Any]) -> str:
    """What a choice of an event brings to the reader; for tool calls, which have no text of their own, their JSON."""
    delta = choice.get("delta") or choice
    text = delta.get("content") or delta.get("text") or delta.get("reasoning_content")
    return text or (json.dumps(delta["tool_calls"]) if delta.get("tool_calls") else "")


def summary(records: Sequence[Record], seconds: float) -> dict[str, Any]:
    """Figures of a run that took ``seconds``: counts, rates, and percentiles in milliseconds."""
    good = [record for record in records if not record.error and record.first is not None]
    output = sum(record.output_tokens for record in good)
    prompt = sum(record.prompt_tokens for record in good)
    errors: dict[str, int] = {}
    for record in records:
        if record.error:
            errors[record.error] = errors.get(record.error, 0) + 1
    per_token = [
        (record.last - record.first) / (record.output_tokens - 1)
        for record in good
        if record.first is not None and record.output_tokens > 1
    ]
    return {
        "requests": len(records),
        "completed": len(good),
        "errors": errors,
        "seconds": round(seconds, 4),
        "requests_per_s": _rate(len(good), seconds),
        "prompt_tokens": prompt,
        "cached_tokens": sum(record.cached_tokens for record in good),
        "output_tokens": output,
        "output_tokens_per_s": _rate(output, seconds),
        "total_tokens_per_s": _rate(output + prompt, seconds),
        "ttft_ms": spread([record.first or 0.0 for record in good]),
        "itl_ms": spread([gap for record in good for gap in record.gaps]),
        "tpot_ms": spread(per_token),
        "e2e_ms": spread([record.last for record in good]),
    }


def _rate(count: int, seconds: float) -> float:
    return round(count / seconds, 3) if seconds > 0 else 0.0


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean, percentiles (nearest rank) and maximum of times in seconds, in milliseconds; empty without values."""
    if not values:
        return {}
    ordered = sorted(values)
    out = {"mean": sum(ordered) / len(ordered)}
    for percent in PERCENTILES:
        out[f"p{percent}"] = ordered[max(0, -(-percent * len(ordered) // 100) - 1)]
    out["max"] = ordered[-1]
    return {name: round(value * 1000, 3) for name, value in out.items()}


def table(result: dict[str, Any]) -> str:
    """The summary for people."""
    lines = [
        f"{'requests':<24}{result['completed']} of {result['requests']} in {result['seconds']:.2f} s",
        f"{'request rate':<24}{result['requests_per_s']:.2f} /s",
        f"{'output tokens':<24}{result['output_tokens']} ({result['output_tokens_per_s']:.1f} /s)",
        f"{'prompt tokens':<24}{result['prompt_tokens']} ({result['cached_tokens']} from the prefix cache)",
        f"{'all tokens':<24}{result['total_tokens_per_s']:.1f} /s",
        "",
        f"{'milliseconds':<24}{'mean':>10}"
        + "".join(f"{f'p{percent}':>10}" for percent in PERCENTILES)
        + f"{'max':>10}",
    ]
    names = {
        "ttft_ms": "time to first token",
        "itl_ms": "between events",
        "tpot_ms": "per output token",
        "e2e_ms": "whole request",
    }
    for key, title in names.items():
        if result[key]:
            lines.append(f"{title:<24}" + "".join(f"{value:>10.1f}" for value in result[key].values()))
    lines += [f"error {count}x: {message}" for message, count in result["errors"].items()]
    return "\n".join(lines)
