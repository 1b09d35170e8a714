"""llguidance: an Earley parser over lazily built lexers. It holds every schema feature exactly or refuses it by name."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from llguidance.gbnf_to_lark import any_to_lark
from numpy.typing import NDArray

from sgl_core.api.grammar import CompiledGrammar, GrammarError, Vocabulary
from sgl_core.api.sampling import GrammarRequest

from . import lark
from .schema.read import read_schema
from .schema.walk import find_keyword
from .structural_tag import check_tag, read_tag, to_lark
from .vocabulary import TokenTable

JSON_OPTIONS = {"whitespace_pattern": r"[\x20\x0A\x0D\x09]{0,16}"}
"""White space between JSON tokens is bounded, so that a weak model cannot fill its budget with it."""

_KEYS = re.compile(r'"([^"\\]+)"')


class LlguidanceBackend:
    """A :class:`sgl_core.api.grammar.GrammarBackend`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._table = TokenTable(vocabulary)
        self._tokenizer = LLTokenizer(
            cast(Any, _Wrapper(self._table)), n_vocab=self._table.size, eos_token=list(self._table.eos)
        )

    def compile(self, request: GrammarRequest) -> CompiledGrammar:
        """Compile a constraint. Raises :class:`GrammarError`."""
        grammar, schema = self._grammar(request)
        failed, messages = LLMatcher.validate_grammar_with_warnings(grammar, self._tokenizer)
        if failed:
            raise _refusal(request.kind, messages[0], schema)
        return _Compiled(self._tokenizer, grammar, self._table.eos)

    def _grammar(self, request: GrammarRequest) -> tuple[str, Any]:
        """The grammar in llguidance's own form, and the schema where there is one."""
        kind, text = request.kind, request.text
        if kind == "json_object":
            return _from_schema({"type": "object"}), None
        if kind == "json_schema":
            schema = read_schema(text)
            if schema is False:
                raise GrammarError("the schema false allows no value")
            return _from_schema(schema), schema
        if kind == "regex":
            if (len(text) - len(text.rstrip("\\"))) % 2:
                raise GrammarError("the pattern ends in a single backslash")
            return str(LLMatcher.grammar_from_regex(text)), None
        if kind == "choice":
            return str(LLMatcher.grammar_from_lark(lark.choice(_choices(text)))), None
        if kind == "ebnf":
            try:
                return str(LLMatcher.grammar_from_lark(any_to_lark(text))), None
            except Exception as error:
                raise GrammarError(f"the grammar cannot be read: {error}") from error
        if kind == "tool_calls":
            return str(LLMatcher.grammar_from_lark(lark.tool_calls(text, self._table.special_names))), None
        if kind == "structural_tag":
            tag = read_tag(text)
            check_tag(tag)
            return str(LLMatcher.grammar_from_lark(to_lark(tag, self._table.special_names))), None
        raise GrammarError(f"llguidance does not serve constraints of kind {kind}")


class _Wrapper:
    """What LLTokenizer asks of a tokenizer."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, table: TokenTable) -> None:
        self._table = table
        self.eos_token_id = table.eos[0] if table.eos else 0
        self.special_token_ids = sorted(table.special)
        names = {i: n for n, i in table.special_names.items()}
        self.tokens = [b or names.get(i, f"<|special_{i}|>").encode() for i, b in enumerate(table.tokens)]

    def __call__(self, text: str) -> list[int]:
        return list(self._table.encode(text))


class _Compiled:
    def __init__(self, tokenizer: LLTokenizer, grammar: str, eos: tuple[int, ...]) -> None:
        self._eos = eos
        self._first = LLMatcher(tokenizer, grammar, log_level=0)
        if self._first.is_error():
            raise GrammarError(self._first.get_error())

    def matcher(self) -> LlguidanceMatcher:
        return LlguidanceMatcher(self._first.deep_copy(), self._eos)


class LlguidanceMatcher:
    """A :class:`sgl_core.api.grammar.Matcher`."""

    def __init__(self, matcher: LLMatcher, eos: tuple[int, ...]) -> None:
        self._matcher = matcher
        self._eos = eos
        self._ended = False

    def accept(self, token_id: int) -> bool:
        if self._matcher.is_stopped():
            # The library stops by itself where only an end may follow; that end is still to come, once.
            legal = token_id in self._eos and not self._ended
            self._ended = True
            return legal
        legal = self._matcher.try_consume_tokens([token_id]) == 1
        self._ended = legal and token_id in self._eos
        return legal

    def fill_mask(self, mask: NDArray[np.int32], row: int) -> None:
        words = mask[row]
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        if self._matcher.is_error():
            raise GrammarError(self._matcher.get_error())

    def finished(self) -> bool:
        return bool(self._matcher.is_stopped())

    def forced(self) -> list[int]:
        return list(self._matcher.compute_ff_tokens())


def _from_schema(schema: Any) -> str:
    return str(LLMatcher.grammar_from_json_schema(json.dumps({} if schema is True else schema), defaults=JSON_OPTIONS))  # type: ignore[arg-type]


def _choices(text: str) -> list[str]:
    choices = json.loads(text)
    if not isinstance(choices, list) or not choices or not all(isinstance(c, str) and c for c in choices):
        raise GrammarError("a choice is a list of strings that are not empty")
    return choices


def _refusal(kind: str, message: str, schema: Any) -> GrammarError:
    """The library's message with a pointer to the first keyword it names."""
    first = message.strip().split("\n")[0][:400]
    if schema is not None:
        for keyword in _KEYS.findall(first):
            pointer = find_keyword(schema, keyword)
            if pointer:
                return GrammarError(f"the schema keyword {keyword} cannot be held exactly: {first}", pointer)
        return GrammarError(f"the schema cannot be held exactly: {first}")
    return GrammarError(f"the {kind} constraint is not valid: {first}")
