"""Many streaming chats with random aborts and bad requests for a while: every stream ends rightly, nothing leaks, health stays good.

    python tests/bench/soak.py --seconds 60 --streams 64 --aborts 0.2 --bad 0.05

Starts ``sgl serve`` on the default model and exits with 1 when anything was wrong: a stream that ended without a reason, an answer of 5xx, a greedy
answer that differs from the one given alone, used pages left over, or memory that grew by more than 10 % after the first third.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
from processes import Running, free_port, serving

from sgl_core.serve.client import Client, HttpError

CHAT = "/v1/chat/completions"
QUESTIONS = (
    "Why is the sky blue?",
    "Name three colours.",
    "What is gravity?",
    "Tell me about cats.",
    "How do boats float?",
)
BAD: tuple[dict[str, Any], ...] = (
    {"messages": []},
    {"messages": [{"role": "user", "content": "x"}], "temperature": -3},
    {"messages": [{"role": "user", "content": "x"}], "logit_bias": {"999999": 1}},
    {"messages": [{"role": "user", "content": "x"}], "max_tokens": 10**9, "stop": [""]},
    {"messages": "not a list"},
    {"messages": [{"role": "user", "content": "too long " * 9000}]},
    {
        "messages": [{"role": "user", "content": "x"}],
        "response_format": {"type": "json_schema", "json_schema": {"schema": 1}},
    },
)


def body(question: str, tokens: int) -> dict[str, Any]:
    """A greedy streamed chat of a fixed length."""
    messages = [{"role": "user", "content": question}]
    return {"messages": messages, "max_tokens": tokens, "temperature": 0, "stream": True, "ignore_eos": True}


async def text_of(client: Client, asked: dict[str, Any], stop_after: int = 0) -> tuple[str, str]:
    """(text, finish reason) of a stream; with ``stop_after`` the connection is closed after so many events."""
    text, reason = "", ""
    events = client.stream(CHAT, asked)
    count = 0
    async for data in events:
        event = json.loads(data)
        if "error" in event:
            return text, "error: " + str(event["error"])[:80]
        for choice in event.get("choices", ()):
            text += (choice.get("delta") or {}).get("content") or ""
            reason = choice.get("finish_reason") or reason
        count += 1
        if stop_after and count >= stop_after:
            await events.aclose()  # type: ignore[attr-defined]
            return text, "aborted"
    return text, reason or "missing"


async def client_loop(
    client: Client,
    until: float,
    rng: random.Random,
    options: argparse.Namespace,
    alone: dict[str, str],
    seen: Counter[str],
) -> None:
    while time.monotonic() < until:
        roll = rng.random()
        try:
            if roll < options.bad:
                await text_of(client, {**rng.choice(BAD), "stream": True})
                seen["bad request served"] += 1
            elif roll < options.bad + options.aborts:
                await text_of(client, body(rng.choice(QUESTIONS), 64), stop_after=rng.randint(1, 20))
                seen["aborted"] += 1
            else:
                question = rng.choice(QUESTIONS)
                text, reason = await text_of(client, body(question, options.tokens))
                right = reason == "length" and text == alone[question]
                seen["right" if right else f"wrong ({reason})"] += 1
        except HttpError as error:
            seen["refused" if roll < options.bad and error.status in (400, 422) else f"http {error.status}"] += 1


def memory_mib(pid: int) -> float:
    """Resident memory of the process tree."""
    tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return float(sum(p.memory_info().rss for p in tree)) / (1 << 20)


async def soak(running: Running, options: argparse.Namespace) -> int:
    client = Client(url=running.url)
    alone = {q: (await text_of(client, body(q, options.tokens)))[0] for q in QUESTIONS}
    seen: Counter[str] = Counter()
    begun = time.monotonic()
    until = begun + options.seconds
    loops = [client_loop(client, until, random.Random(n), options, alone, seen) for n in range(options.streams)]
    work = asyncio.gather(*loops)
    samples, health = [], 0
    while not work.done():
        await asyncio.wait([work], timeout=1.0)
        samples.append(memory_mib(running.pid))
        health += (await client.get("/health")) is None
    await work
    load = await client.get("/get_load")
    for name, count in sorted(seen.items()):
        print(f"{name:<24}{count}")
    third = len(samples) // 3
    early, late = max(samples[:third] or [0.0]), max(samples)
    print(f"{'memory MiB':<24}{early:.0f} in the first third, {late:.0f} at most")
    print(f"{'load when idle':<24}{json.dumps(load)[:200]}")
    bad = [n for n in seen if n not in ("right", "aborted", "refused")]
    flat = late <= early * 1.10 + 32
    print("FAILED: " + ", ".join(bad) if bad else "every stream ended rightly", "" if flat else "; memory grew")
    return 1 if bad or not flat else 0


def main() -> int:
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--seconds", type=float, default=60.0)
    out.add_argument("--streams", type=int, default=64)
    out.add_argument("--tokens", type=int, default=48, help="tokens of an answer")
    out.add_argument("--aborts", type=float, default=0.2, help="share of requests whose connection is closed early")
    out.add_argument("--bad", type=float, default=0.05, help="share of requests that must be refused")
    options = out.parse_args()
    log = Path(tempfile.mkdtemp()) / "soak.log"
    sgl = [sys.executable, "-m", "sgl_core", "serve", "--max-total-tokens", "20000"]
    port = free_port()
    with serving("sgl", [*sgl, "--port", str(port)], port, log) as running:
        return asyncio.run(soak(running, options))


if __name__ == "__main__":
    raise SystemExit(main())
