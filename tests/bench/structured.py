"""What structured output costs: tokens/s at 16 streams with a JSON schema against without, and the first token's delay.

    python tests/bench/structured.py [--rounds 3] [--url URL] [--nice -20]

Rounds alternate; medians and ratios are printed. Without --url it starts ``sgl serve`` on the default model.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from processes import free_port, serving

from sgl_core.serve.client import Client

TOKENS = 128
LONG = {"type": "array", "items": {"type": "string", "minLength": 200, "maxLength": 400}, "minItems": 20}
"""A schema that no answer of TOKENS tokens completes, so that lengths are equal."""


def big(seed: int) -> dict[str, Any]:
    """A schema of about 5 kB that was not seen before."""
    inner = {f"field_{seed}_{i}": {"type": "string", "enum": [f"value {i} {j}" for j in range(3)]} for i in range(64)}
    return {"type": "object", "properties": inner, "required": list(inner), "additionalProperties": False}


def body(question: str, schema: dict[str, Any] | None, tokens: int = TOKENS) -> dict[str, Any]:
    out: dict[str, Any] = {
        "messages": [{"role": "user", "content": question}],
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "ignore_eos": True,
    }
    if schema is not None:
        out["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    return out


async def first_token(client: Client, asked: dict[str, Any]) -> float:
    """Seconds until the stream's first event with text."""
    begun = time.perf_counter()
    stream = client.stream("/v1/chat/completions", asked)
    async for data in stream:
        if b'"content":"' in data and b'"content":""' not in data:
            break
    took = time.perf_counter() - begun
    async for _ in stream:
        pass
    return took


async def rate(client: Client, number: int, schema: dict[str, Any] | None) -> float:
    """Tokens/s of 16 streams at once."""
    asked = [body(f"Write a long list of facts, part {number}-{i}.", schema) for i in range(16)]
    begun = time.perf_counter()
    await asyncio.gather(*(first_token(client, a) for a in asked))
    return 16 * TOKENS / (time.perf_counter() - begun)


async def measure(url: str, rounds: int) -> None:
    client = Client(url=url)
    await rate(client, 0, None)
    await rate(client, 1, LONG)
    free, held = [], []
    for number in range(rounds):
        free.append(await rate(client, 10 + number, None))
        held.append(await rate(client, 30 + number, LONG))
    a, b = statistics.median(free), statistics.median(held)
    print(f"16 streams, tokens/s: free {a:.0f}, json_schema {b:.0f}, ratio {b / a:.3f}")
    plain, cached, new = [], [], []
    for number in range(3 * rounds):
        plain.append(await first_token(client, body(f"Why, {number}?", None, 4)))
        cached.append(await first_token(client, body(f"How, {number}?", LONG, 4)))
        new.append(await first_token(client, body(f"Who, {number}?", big(number), 4)))
    base = statistics.median(plain)
    print(
        f"first token, ms: free {base * 1e3:.1f}, cached grammar {(statistics.median(cached) - base) * 1e3:+.1f}, ",
        end="",
    )
    print(f"new 5 kB schema {(statistics.median(new) - base) * 1e3:+.1f}")


def main() -> int:
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--rounds", type=int, default=3)
    out.add_argument("--url")
    out.add_argument("--nice", type=int, default=0, help="weight of the server's session against other jobs, -20 to 19")
    options = out.parse_args()
    with contextlib.ExitStack() as stack:
        url = options.url
        if url is None:
            port = free_port()
            command = [sys.executable, "-m", "sgl_core", "serve", "--port", str(port)]
            log = Path(tempfile.mkdtemp()) / "structured.log"
            url = stack.enter_context(serving("sgl", command, port, log, nice=options.nice)).url
        asyncio.run(measure(url, options.rounds))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
