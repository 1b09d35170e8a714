"""Contract of constrained-decoding backends (registry ``grammars``). They live in the worker process beside the scheduler."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .parsers import CallSyntax
from .sampling import GrammarRequest


class GrammarError(ValueError):
    """The constraint cannot be compiled or honoured. ``pointer`` is a JSON pointer to the offending part of a schema."""

    def __init__(self, message: str, pointer: str = "") -> None:
        super().__init__(message)
        self.pointer = pointer


class Matcher(Protocol):
    """The state of one request's constraint."""

    def accept(self, token_id: int) -> bool:
        """Advance by a sampled token; false when the token is not allowed (the state is then unchanged)."""
        ...

    def fill_mask(self, mask: NDArray[np.int32], row: int) -> None:
        """Write the allowed tokens into ``mask[row]``, 32 tokens a word, bit i of word w = token 32*w+i."""
        ...

    def finished(self) -> bool:
        """Whether only an end-of-sequence token may follow."""
        ...

    def forced(self) -> list[int]:
        """Tokens that must come next, if the backend knows them; may be empty. Each is the only one that :meth:`fill_mask` allows in its
        place, so that an answer is the same whether they are sampled or appended (jump-forward)."""
        ...


class CompiledGrammar(Protocol):
    """A constraint compiled once and shared by requests with the same content."""

    def matcher(self) -> Matcher: ...


class GrammarBackend(Protocol):
    """``factory(vocabulary) -> GrammarBackend``, made once per worker."""

    def compile(self, request: GrammarRequest) -> CompiledGrammar:
        """Compile; called off the step loop in a thread. Raises :class:`GrammarError`."""
        ...


class Vocabulary(Protocol):
    """The tokenizer as a grammar backend sees it."""

    size: int
    eos_token_ids: tuple[int, ...]
    special_token_ids: frozenset[int]
    tokenizer_json: str
    """The Hugging Face tokenizers serialization."""

    def token_bytes(self, token_id: int) -> bytes:
        """The raw bytes a token stands for (empty for special tokens)."""
        ...


def tool_call_request(
    syntax: CallSyntax, tools: Sequence[Mapping[str, Any]], *, parallel: bool = True, required: bool = True
) -> GrammarRequest:
    """A constraint of kind ``tool_calls``: the answer is one call of ``tools`` (OpenAI tool objects), or several if ``parallel``.

    Without ``required`` any text may stand before and instead of calls; once a call begins, it is held to its schema.
    Its text is a JSON object: ``syntax`` (the fields of :class:`CallSyntax`), ``tools`` (name and parameters), ``parallel`` and ``required``.
    Raises :class:`GrammarError` where the family's syntax cannot be enforced.
    """
    if syntax.arguments == "none" or not tools:
        raise GrammarError("calls cannot be enforced without tools and a call syntax")
    functions = [tool.get("function", tool) for tool in tools]
    body = {
        "syntax": asdict(syntax),
        "tools": [{"name": f["name"], "parameters": f.get("parameters")} for f in functions],
        "parallel": parallel,
        "required": required,
    }
    return GrammarRequest(kind="tool_calls", text=json.dumps(body, ensure_ascii=False))
