"""``sgl bench serve``: a load on a running server, by concurrency or by request rate, over its OpenAI API alone."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

from sgl_core.serve.client import Client, HttpError

from .measure import Record, measure, summary, table
from .workload import Span, Workload


def main(argv: Sequence[str]) -> int:
    """Run the benchmark; 0 where every request was answered, 1 where one failed or no server answers."""
    options = parser().parse_args(list(argv))
    try:
        result = asyncio.run(run(options))
    except HttpError as error:
        print(f"sgl bench serve: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if options.json == "-":
        print(json.dumps(result, indent=2))
    else:
        print(table(result))
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=2)
    return 0 if result["completed"] == result["requests"] else 1


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(prog="sgl bench serve", description="Load a running server and time its answers.")
    out.add_argument("--url", default="http://127.0.0.1:30000", help="the server (default: %(default)s)")
    out.add_argument("--key", default="", help="its API key")
    out.add_argument("--name", help="the model's name there (default: the first it lists)")
    out.add_argument("--endpoint", choices=("completions", "chat"), default="completions")
    out.add_argument("--requests", type=int, default=100, help="how many requests (default: %(default)s)")
    load = out.add_mutually_exclusive_group()
    load.add_argument("--concurrency", type=int, default=None, help="requests under way at any time (default: 16)")
    load.add_argument("--request-rate", type=float, default=None, help="requests a second, at random (Poisson) times")
    out.add_argument("--input-len", type=Span.parse, default=Span(128, 128), help="words of a prompt: N or LOW:HIGH")
    out.add_argument("--output-len", type=Span.parse, default=Span(128, 128), help="tokens of an answer: N or LOW:HIGH")
    out.add_argument("--prefix-len", type=int, default=0, help="words of a shared prefix before each prompt")
    out.add_argument("--prefixes", type=int, default=1, help="how many different shared prefixes (with --prefix-len)")
    out.add_argument("--warmup", type=int, default=1, help="requests before the measurement (default: %(default)s)")
    out.add_argument("--temperature", type=float, default=0.0)
    out.add_argument("--stop-at-eos", action="store_true", help="let answers end early (else every one has its length)")
    out.add_argument("--seed", type=int, default=0)
    out.add_argument("--json", nargs="?", const="-", help="write the result as JSON to a file, or alone to stdout")
    return out


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """The whole benchmark. Raises HttpError where the server does not answer at all."""
    client = Client(url=options.url, api_key=options.key)
    name = options.name or (await client.get("/v1/models"))["data"][0]["id"]
    load = Workload(
        requests=options.requests,
        input=options.input_len,
        output=options.output_len,
        prefix=options.prefix_len,
        prefixes=options.prefixes if options.prefix_len else 0,
        seed=options.seed,
    )
    path, bodies = requests_of(load, options, name)
    for body in bodies[: options.warmup]:
        record = await measure(client, path, {**body, "max_tokens": min(body["max_tokens"], 8)})
        if record.error:
            raise HttpError(record.error)
    begun = time.perf_counter()
    if options.request_rate:
        records = await at_rate(client, path, bodies, options.request_rate, options.seed)
    else:
        records = await at_concurrency(client, path, bodies, options.concurrency or 16)
    result = summary(records, time.perf_counter() - begun)
    return {"model": name, "url": options.url, "load": settings_of(options), **result}


def requests_of(load: Workload, options: argparse.Namespace, name: str) -> tuple[str, list[dict[str, Any]]]:
    """The route and a body for each request."""
    common = {
        "model": name,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": options.temperature,
    }
    if not options.stop_at_eos:
        common["ignore_eos"] = True
    chat = options.endpoint == "chat"
    bodies = []
    for prompt, most in load.items():
        asked = {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
        bodies.append({**common, **asked, "max_tokens": most})
    return ("/v1/chat/completions" if chat else "/v1/completions"), bodies


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """The options that make two runs comparable."""
    spans = {"input_len": options.input_len, "output_len": options.output_len}
    return {
        "endpoint": options.endpoint,
        "concurrency": None if options.request_rate else options.concurrency or 16,
        "request_rate": options.request_rate,
        **{key: [span.low, span.high] for key, span in spans.items()},
        "prefix_len": options.prefix_len,
        "prefixes": options.prefixes if options.prefix_len else 0,
        "seed": options.seed,
    }


async def at_concurrency(client: Client, path: str, bodies: Sequence[dict[str, Any]], count: int) -> list[Record]:
    """``count`` requests under way until all were sent."""
    waiting = iter(bodies)
    records: list[Record] = []

    async def one_after_the_other() -> None:
        for body in waiting:
            records.append(await measure(client, path, body))

    await asyncio.gather(*(one_after_the_other() for _ in range(max(count, 1))))
    return records


async def at_rate(client: Client, path: str, bodies: Sequence[dict[str, Any]], rate: float, seed: int) -> list[Record]:
    """Requests at random times, ``rate`` a second on average, whether or not earlier ones were answered."""
    source = random.Random(seed + 1)
    loop = asyncio.get_running_loop()
    due = loop.time()
    tasks = []
    for body in bodies:
        await asyncio.sleep(max(due - loop.time(), 0))
        tasks.append(asyncio.create_task(measure(client, path, body)))
        due += source.expovariate(rate)
    return list(await asyncio.gather(*tasks))
