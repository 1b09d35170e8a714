"""How much sooner a second request starts that shares a 1,500-token prefix: first-token times, cached tokens, and the ratio.

    python tests/bench/prefix.py [--rounds 5]

Starts ``sgl serve`` on the default model; exits with 1 when the median ratio is below 5.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
from pathlib import Path

from processes import free_port, serving

from sgl_core.cli.bench.measure import Record, measure
from sgl_core.serve.client import Client

WANTED = 5.0


async def start(client: Client, prompt: str) -> Record:
    """One streamed request for one token."""
    body = {
        "prompt": prompt,
        "max_tokens": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    record = await measure(client, "/v1/completions", body)
    if record.error or record.first is None:
        raise SystemExit(f"no answer: {record.error}")
    return record


async def rounds(url: str, count: int) -> int:
    client, ratios = Client(url=url), []
    for number in range(count):
        words = random.Random(number)
        prefix = " ".join(words.choice(["cat", "dog", "bird", "fish", "cow", "ant", "bee"]) for _ in range(1500))
        first, second = await start(client, prefix + " one"), await start(client, prefix + " two")
        assert first.first is not None
        assert second.first is not None
        ratios.append(first.first / second.first)
        print(
            f"{first.prompt_tokens} tokens: {first.first * 1e3:.0f} ms with {first.cached_tokens} cached, "
            f"{second.first * 1e3:.0f} ms with {second.cached_tokens} cached, {ratios[-1]:.1f}x"
        )
    print(f"median {statistics.median(ratios):.1f}x, wanted {WANTED:.0f}x")
    return 0 if statistics.median(ratios) >= WANTED else 1


def main() -> int:
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--rounds", type=int, default=5)
    options = out.parse_args()
    port = free_port()
    command = [sys.executable, "-m", "sgl_core", "serve", "--port", str(port)]
    with serving("sgl", command, port, Path(tempfile.mkdtemp()) / "prefix.log") as running:
        return asyncio.run(rounds(running.url, options.rounds))


if __name__ == "__main__":
    raise SystemExit(main())
