"""``sgl generate``: text from a model without a server: a prompt or a file of prompts in, text or JSON lines out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from sgl_core.config.errors import ConfigError
from sgl_core.config.serve_options import discover, parse_serve_argv
from sgl_core.registry.errors import RegistryError

from .serve import guarded, refused

if TYPE_CHECKING:
    from sgl_core.config import ServerArgs
    from sgl_core.registry import Registries

BATCH = 256
"""Prompts handed to the engine at once."""


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 on success, 1 where a prompt or the model cannot be served, 2 for a wrong command line."""
    options, rest = parser().parse_known_args(list(argv))
    try:
        prompts = list(read_prompts(options))
        registries = discover(rest)
        args = parse_serve_argv(rest, registries)
    except (ConfigError, ValueError, OSError) as error:
        return refused("sgl generate", error, 2)
    except RegistryError as error:
        return refused("sgl generate", error)
    return guarded("sgl generate", lambda: _run(options, prompts, args, registries))


def parser() -> argparse.ArgumentParser:
    """The command's own options; all others are those of ``sgl serve``."""
    out = argparse.ArgumentParser(
        prog="sgl generate",
        usage="sgl generate [MODEL] (--prompt TEXT | --file FILE) [options] [options of sgl serve]",
        description="Generate text without a server. MODEL and all options of `sgl serve` are understood as there.",
        allow_abbrev=False,
    )
    source = out.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", action="append", help="a prompt; may be given several times")
    source.add_argument(
        "--file", help="prompts, one a line; in a .jsonl file objects with prompt or messages; - is stdin"
    )
    out.add_argument("--output", default="-", help="where answers go (default: stdout)")
    out.add_argument("--json", action="store_true", help="write JSON lines with text, finish reason and token counts")
    out.add_argument(
        "--chat", action="store_true", help="send each prompt as a user's message through the chat template"
    )
    out.add_argument("--system", help="a system message (with --chat)")
    out.add_argument("--max-tokens", type=int, default=128)
    out.add_argument("--temperature", type=float)
    out.add_argument("--top-p", type=float)
    out.add_argument("--top-k", type=int)
    out.add_argument("--seed", type=int)
    out.add_argument("--stop", action="append", help="a stop string; may be given several times")
    out.add_argument("--ignore-eos", action="store_true")
    out.add_argument("--inline", action="store_true", help="run the model inside this process")
    return out


def read_prompts(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Each prompt as ``{"prompt": text}`` or ``{"messages": [...]}``. Raises ValueError naming the line that is wrong."""
    if options.prompt:
        yield from ({"prompt": text} for text in options.prompt)
        return
    as_json = options.file.endswith(".jsonl")
    text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if not as_json:
            yield {"prompt": line}
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{options.file}, line {number}: not JSON: {error}") from None
        if not isinstance(entry, dict) or not ("prompt" in entry or "messages" in entry):
            raise ValueError(f"{options.file}, line {number}: needs prompt or messages")
        yield entry


def _run(options: argparse.Namespace, prompts: list[dict[str, Any]], args: ServerArgs, registries: Registries) -> int:
    from sgl_core.serve.core.errors import RequestError
    from sgl_core.serve.offline import Engine

    out: TextIO = sys.stdout if options.output == "-" else open(options.output, "w", encoding="utf-8")  # noqa: SIM115
    try:
        with Engine.from_args(args, registries, inline=options.inline) as engine:
            for answer in _answers(engine, options, prompts):
                print(json.dumps(answer, ensure_ascii=False) if options.json else answer["text"], file=out, flush=True)
    except RequestError as error:
        return refused("sgl generate", error)
    finally:
        if out is not sys.stdout:
            out.close()
    return 0


def _answers(engine: Any, options: argparse.Namespace, prompts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Answers in the order of the prompts, generated in batches."""
    sampling = {
        "max_new_tokens": options.max_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "top_k": options.top_k,
        "seed": options.seed,
        "stop": options.stop,
        "ignore_eos": options.ignore_eos or None,
    }
    sampling = {name: value for name, value in sampling.items() if value is not None}
    for start in range(0, len(prompts), BATCH):
        batch = prompts[start : start + BATCH]
        ids = [engine.encode_chat(_messages(entry, options)) if _is_chat(entry, options) else None for entry in batch]
        encoded = [
            row if row is not None else engine.encode(entry["prompt"]) for row, entry in zip(ids, batch, strict=True)
        ]
        results = engine.generate(
            input_ids=encoded, sampling_params=[{**sampling, **entry.get("sampling_params", {})} for entry in batch]
        )
        for entry, result in zip(batch, results, strict=True):
            meta = result["meta_info"]
            yield {
                **{key: value for key, value in entry.items() if key != "sampling_params"},
                "text": result["text"],
                "finish_reason": meta["finish_reason"]["type"],
                "prompt_tokens": meta["prompt_tokens"],
                "completion_tokens": meta["completion_tokens"],
            }


def _is_chat(entry: dict[str, Any], options: argparse.Namespace) -> bool:
    return options.chat or "messages" in entry


def _messages(entry: dict[str, Any], options: argparse.Namespace) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = entry.get("messages") or [{"role": "user", "content": entry["prompt"]}]
    return [{"role": "system", "content": options.system}, *messages] if options.system else messages
