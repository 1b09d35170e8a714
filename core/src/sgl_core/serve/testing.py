"""Stand-ins for tests of the serving side: a channel that answers by a script, and small real tokenizers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from sgl_core.checkpoint.tokenizer import Tokenizer
from sgl_core.engine.messages import (
    Abort,
    Control,
    ControlResult,
    FromWorker,
    Generate,
    Logprobs,
    Output,
    Outputs,
    Ready,
    ToWorker,
)

Script = Callable[[Generate], Iterable[Output]]
SPECIAL = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


class ScriptedChannel:
    """A worker that says what ``script`` yields for each request; without one it stays silent and tests push messages.

    ``sent`` keeps every message. An abort ends a request that the script has not ended.
    """

    def __init__(self, script: Script | None = None, *, context_length: int = 512, vocab_size: int = 0) -> None:
        self.script = script
        self.sent: list[ToWorker] = []
        self.living = True
        self._running: set[str] = set()
        self._queue: asyncio.Queue[FromWorker | None] = asyncio.Queue()
        capacity = {"context_length": context_length, "vocab_size": vocab_size, "page_size": 1, "num_pages": 4096}
        self._queue.put_nowait(Ready(capacity=capacity))

    def send(self, message: ToWorker) -> None:
        if not self.living:
            raise ConnectionError("the worker is gone")
        self.sent.append(message)
        if isinstance(message, Generate):
            self._running.add(message.rid)
            for out in self.script(message) if self.script is not None else ():
                self.push(Outputs(items=[out]))
        elif isinstance(message, Abort) and message.rid in self._running:
            self.push(Outputs(items=[Output(rid=message.rid, finish_reason=message.reason)]))
        elif isinstance(message, Control) and self.script is not None:
            self.push(ControlResult(id=message.id, value=True))

    def push(self, message: FromWorker) -> None:
        """A message from the worker."""
        if isinstance(message, Outputs):
            self._running -= {out.rid for out in message.items if out.finish_reason}
        self._queue.put_nowait(message)

    def kill(self) -> None:
        """The worker process is gone."""
        self.living = False

    async def recv(self) -> FromWorker:
        message = await self._queue.get()
        if message is None:
            raise ConnectionError("the channel is closed")
        return message

    def alive(self) -> bool:
        return self.living

    def close(self) -> None:
        self.living = False

    def generated(self) -> list[Generate]:
        """The requests that came."""
        return [message for message in self.sent if isinstance(message, Generate)]


def says(ids: Sequence[int], *, eos: int | None = None, chunk: int = 1) -> Script:
    """A script that generates ``ids`` over and over, ``chunk`` tokens a message, and obeys limits, stop tokens and logprob options.

    ``eos`` is generated once after ``ids`` where it is given.
    """

    def script(message: Generate) -> Iterable[Output]:
        sampling, options = message.sampling, message.logprobs
        if message.embed:
            vector = [float(token) for token in message.input_ids[:4]] + [0.5] * 4
            yield Output(
                rid=message.rid, embedding=vector[:4], finish_reason="stop", prompt_tokens=len(message.input_ids)
            )
            return
        limit = sampling.max_new_tokens if sampling.max_new_tokens is not None else 16
        ends = set(sampling.stop_token_ids) | (set() if sampling.ignore_eos else set(message.eos_token_ids))
        story = [*ids, eos] if eos is not None else list(ids)
        tokens = [story[at % len(story)] for at in range(limit)]
        stop = next((at for at, token in enumerate(tokens) if token in ends and at >= sampling.min_new_tokens), None)
        reason, matched = ("length", None) if stop is None else ("stop", tokens[stop])
        tokens = tokens if stop is None else tokens[: stop + 1]
        groups = [tokens[at : at + chunk] for at in range(0, len(tokens), chunk)] or [[]]
        for number, group in enumerate(groups):
            last = number == len(groups) - 1
            yield Output(
                rid=message.rid,
                token_ids=group,
                logprobs=_logprobs(group, options.top) if options.output else None,
                prompt_logprobs=_prompt(message) if number == 0 and options.prompt_start >= 0 else None,
                prompt_tokens=len(message.input_ids),
                finish_reason=reason if last else "",
                matched=matched if last else None,
            )

    return script


def _logprobs(ids: Sequence[int], top: int) -> Logprobs:
    """The more often a token's id was halved the likelier; the one after the chosen is unreachable."""
    values: list[float | None] = [-0.25 for _ in ids]
    pairs = [
        [(token, -0.25), (token + 1, float("-inf")), *((token + k, -1.0 * k) for k in range(2, top))][:top]
        for token in ids
    ]
    return Logprobs(token_logprobs=values, top=pairs if top else [])


def _prompt(message: Generate) -> Logprobs:
    start = message.logprobs.prompt_start
    ids = message.input_ids[start:]
    out = _logprobs(ids, message.logprobs.top)
    if start == 0:
        out.token_logprobs[0] = None
    return out


def byte_tokenizer(words: Sequence[str] = (), **options: Any) -> Tokenizer:
    """A byte-level BPE tokenizer: all bytes, ``words`` (with their leading space) as single tokens, ChatML special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {char: index for index, char in enumerate(alphabet)}
    merges: list[tuple[str, str]] = []
    spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for word in words:
        chars = spell.pre_tokenize_str(word)[0][0]
        for at in range(2, len(chars) + 1):
            pair = (chars[: at - 1], chars[at - 1])
            if chars[:at] not in vocab:
                vocab[chars[:at]] = len(vocab)
                merges.append(pair)
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return _finish(backend, options)


def sentencepiece_tokenizer(pieces: Sequence[str] = (), **options: Any) -> Tokenizer:
    """A BPE tokenizer as Llama 2's: ``▁`` for spaces, byte fallback, BOS put before every text, first space dropped on decoding."""
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    vocab = {name: index for index, name in enumerate(["<unk>", *names])}
    for piece in [*"▁abcdefghijklmnopqrstuvwxyz", *pieces]:
        vocab.setdefault(piece, len(vocab))
    backend = tokenizers.Tokenizer(
        models.BPE(vocab=vocab, merges=[], byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    )
    backend.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _finish(backend, {"add_bos": True, **options})


def _finish(backend: tokenizers.Tokenizer, options: dict[str, Any]) -> Tokenizer:
    backend.add_special_tokens([tokenizers.AddedToken(text, special=True) for text in SPECIAL])
    if options.get("add_bos"):
        bos = backend.token_to_id("<s>")
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", bos)]
        )
    return Tokenizer(
        backend,
        special_tokens={"bos_token": "<s>", "eos_token": options.get("eos", "<|im_end|>")},
        chat_templates={"default": options.get("template", CHATML)},
    )


def save_model(folder: Path, *, context_length: int = 8192) -> Path:
    """A model folder without weights, for the null platform: a small Llama configuration and a byte-level tokenizer."""
    tokenizer = byte_tokenizer([" the", " and"])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.backend.save(str(folder / "tokenizer.json"))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": tokenizer.size,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": context_length,
        "torch_dtype": "float32",
    }
    special = {"bos_token": "<s>", "eos_token": "<|im_end|>", "chat_template": CHATML}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps(special))
    return folder
