"""What jump-forward brings: tokens/s of answers to a schema of many names, with it against without, on two servers in turns.

    python tests/bench/jump_forward.py [--rounds 4] [--nice -20]

Greedy; says how many answers of the two servers are the same, too.
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

NAMES = (
    "product_name",
    "manufacturer_address",
    "delivery_instructions",
    "customer_telephone_number",
    "order_reference",
)
TEXT = {"type": "string", "maxLength": 12}
STATUS = {"enum": ["available immediately", "currently out of stock", "discontinued permanently"]}
PROPERTIES: dict[str, Any] = {
    **dict.fromkeys(NAMES, TEXT),
    "price_in_euro": {"type": "integer", "minimum": 0, "maximum": 1000},
    "availability_status": STATUS,
    "previous_availability_status": STATUS,
}
SCHEMA = {"type": "object", "properties": PROPERTIES, "required": list(PROPERTIES), "additionalProperties": False}


def body(number: int) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": f"Describe product number {number} as JSON."}],
        "max_tokens": 400,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
    }


async def load(client: Client, numbers: range) -> tuple[float, list[str]]:
    """Tokens/s of these requests at once, and their answers."""
    begun = time.perf_counter()
    answers = await asyncio.gather(*(client.post("/v1/chat/completions", body(number)) for number in numbers))
    took = time.perf_counter() - begun
    tokens = sum(answer["usage"]["completion_tokens"] for answer in answers)
    return tokens / took, [answer["choices"][0]["message"]["content"] for answer in answers]


async def measure(urls: dict[str, str], rounds: int) -> None:
    clients = {name: Client(url=url) for name, url in urls.items()}
    for client in clients.values():
        await load(client, range(2))
    for streams in (1, 4, 8, 16):
        rates: dict[str, list[float]] = {name: [] for name in clients}
        same = total = 0
        for number in range(rounds * (4 if streams == 1 else 1)):
            answers = {}
            for name in list(clients) if number % 2 else list(clients)[::-1]:
                first = 100 + 20 * number
                rate, answers[name] = await load(clients[name], range(first, first + streams))
                rates[name].append(rate)
            same += sum(a == b for a, b in zip(*answers.values(), strict=True))
            total += streams
        jump, plain = (statistics.median(rates[name]) for name in ("jump", "plain"))
        ratio = statistics.median(a / b for a, b in zip(rates["jump"], rates["plain"], strict=True))
        print(
            f"{streams:2} streams, tokens/s: jump-forward {jump:.0f}, without {plain:.0f}, ratio {ratio:.2f}; ", end=""
        )
        print(f"{same} of {total} answers the same", flush=True)


def main() -> int:
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--rounds", type=int, default=4)
    out.add_argument("--nice", type=int, default=0)
    options = out.parse_args()
    with contextlib.ExitStack() as stack:
        urls = {}
        for name, flags in (("jump", []), ("plain", ["--disable-jump-forward"])):
            port = free_port()
            command = [sys.executable, "-m", "sgl_core", "serve", "--port", str(port), *flags]
            log = Path(tempfile.mkdtemp()) / f"{name}.log"
            urls[name] = stack.enter_context(serving(name, command, port, log, nice=options.nice)).url
        asyncio.run(measure(urls, options.rounds))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
