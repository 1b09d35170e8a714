"""Prompts in every form clients send them: a text, texts, token ids, lists of them; checked, then tokenized off the event loop when long."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import RequestError, refuse
from .request import ModelCard
from .tokenizer import TextTokenizer
from .validate import check_text, check_token, shown

LONG_TEXT = 16_384
"""Characters from which a text is tokenized in a thread (about 5 ms of work)."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A tokenized prompt; ``text`` is None where the client sent token ids."""

    ids: list[int]
    text: str | None = None


def prompt_list(value: Any, name: str, card: ModelCard) -> tuple[list[str | list[int]], bool]:
    """The prompts of a field, and whether the client sent several. Raises RequestError for empty, blank or mixed ones."""
    if isinstance(value, str):
        return [_text(value, name, name)], False
    if not isinstance(value, Sequence) or isinstance(value, Mapping):
        raise refuse(name, f"must be a text, a list of texts, token ids or lists of token ids, not {shown(value)}")
    if not value:
        raise refuse(name, "is empty")
    if all(isinstance(entry, int) and not isinstance(entry, bool) for entry in value):
        return [_ids(value, name, name, card)], False
    if all(isinstance(entry, str) for entry in value):
        return [_text(entry, f"{name}[{row}]", name) for row, entry in enumerate(value)], True
    if all(isinstance(entry, Sequence) and not isinstance(entry, str) for entry in value):
        return [_ids(entry, f"{name}[{row}]", name, card) for row, entry in enumerate(value)], True
    raise refuse(name, "must hold texts, token ids, or lists of token ids, not a mixture")


def _text(value: str, where: str, name: str) -> str:
    if not value.strip():
        raise RequestError(f"{where}: the prompt is empty or only white space", param=name, code="invalid_value")
    check_text(value, name)
    return value


def _ids(value: Sequence[Any], where: str, name: str, card: ModelCard) -> list[int]:
    if not value:
        raise RequestError(f"{where}: the list of token ids is empty", param=name, code="invalid_value")
    vocab = card.vocab_size
    for token in value:
        if type(token) is not int or token < 0 or (vocab and token >= vocab):
            try:
                check_token(token, where, card)
            except RequestError as error:
                raise RequestError(error.message, param=name, code=error.code) from None
    return list(value)


class Encoder:
    """Tokenizes prompts."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer

    async def prompt(self, value: str | list[int], name: str) -> Prompt:
        """One prompt of :func:`prompt_list`, tokenized. A text gets the special tokens that the tokenizer adds, once."""
        if not isinstance(value, str):
            return Prompt(value)
        ids = await self.encode(value, add_special=True)
        bos = self._tokenizer.bos_token_id
        if bos is not None and ids[:2] == [bos, bos]:
            del ids[0]  # the text brought its own beginning-of-sequence token
        if not ids:
            raise refuse(name, "the prompt has no tokens")
        return Prompt(ids, value)

    async def pair(self, text: str, second: str) -> tuple[list[int], int]:
        """Two texts as one prompt; see :meth:`TextTokenizer.encode_pair`."""
        if len(text) + len(second) < LONG_TEXT:
            return self._tokenizer.encode_pair(text, second)
        return await asyncio.to_thread(self._tokenizer.encode_pair, text, second)

    async def rendered(self, text: str) -> Prompt:
        """A prompt that a chat template wrote: it holds all special tokens it needs."""
        ids = await self.encode(text, add_special=False)
        if not ids:
            raise refuse("messages", "the rendered prompt has no tokens")
        return Prompt(ids, text)

    async def encode(self, text: str, *, add_special: bool) -> list[int]:
        if len(text) < LONG_TEXT:
            return self._tokenizer.encode(text, add_special)
        return await asyncio.to_thread(self._tokenizer.encode, text, add_special)
