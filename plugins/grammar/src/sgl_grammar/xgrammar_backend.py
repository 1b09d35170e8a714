"""xgrammar: pushdown automata with masks precomputed over the vocabulary; serves what it holds exactly and raises Elsewhere for the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xgrammar
from numpy.typing import NDArray

from sgl_core.api.grammar import CompiledGrammar, GrammarError, Vocabulary
from sgl_core.api.sampling import GrammarRequest

from .routing import Elsewhere
from .schema.plain import not_plain
from .schema.read import read_schema
from .structural_tag import check_tag, formats, read_tag
from .vocabulary import TokenTable

MAX_SPACES = 16
"""White-space characters between two JSON tokens, so that a weak model cannot fill its budget with them."""

_LOOKS_BEYOND = re.compile(r"\(\?|\\[bB1-9]|\\[pP]\{|[*+?}]\+|\^|\$")
"""Parts of a regular expression that xgrammar reads differently or not at all."""


class XgrammarBackend:
    """A :class:`sgl_core.api.grammar.GrammarBackend`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._table = table = TokenTable(vocabulary)
        info = xgrammar.TokenizerInfo(
            list(table.tokens),
            vocab_type=xgrammar.VocabType.RAW,
            vocab_size=table.size,
            stop_token_ids=list(table.eos),
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compile(self, request: GrammarRequest) -> CompiledGrammar:
        """Compile a constraint. Raises :class:`GrammarError`, or :class:`Elsewhere` for what another backend must hold."""
        kind, text = request.kind, request.text
        if kind == "json_schema":
            schema = read_schema(text)
            if not_plain(schema):
                raise Elsewhere(kind)
            return self._schema(json.dumps(schema))
        if kind == "regex":
            if _LOOKS_BEYOND.search(text):
                raise Elsewhere(kind)
            return _Compiled(_compiled(kind, self._compiler.compile_regex, text), self._table)
        if kind == "ebnf":
            return _Compiled(_compiled(kind, self._compiler.compile_grammar, text), self._table)
        if kind == "structural_tag":
            tag = read_tag(text)
            check_tag(tag)
            if not all(_held(node) for _, node in formats(tag)):
                raise Elsewhere(kind)
            whole = json.dumps({"type": "structural_tag", "format": tag})
            return _Compiled(_compiled(kind, self._compiler.compile_structural_tag, whole), self._table)
        raise Elsewhere(kind)

    def _schema(self, text: str) -> CompiledGrammar:
        try:
            compiled = self._compiler.compile_json_schema(
                text, any_whitespace=True, strict_mode=False, max_whitespace_cnt=MAX_SPACES
            )
        except Exception as error:
            raise Elsewhere("json_schema") from error
        return _Compiled(compiled, self._table)


def _held(node: Mapping[str, Any]) -> bool:
    """Whether a format of a structural tag is held exactly, what stands below it aside."""
    if node.get("type") == "json_schema":
        return not not_plain(node["json_schema"])
    return node.get("type") != "regex" or not _LOOKS_BEYOND.search(node["pattern"])


def _compiled(kind: str, compile_: object, text: str) -> xgrammar.CompiledGrammar:
    assert callable(compile_)
    try:
        return compile_(text)  # type: ignore[no-any-return]
    except Exception as error:
        raise GrammarError(f"the {kind} constraint is not valid: {str(error).splitlines()[0][:400]}") from error


class _Compiled:
    def __init__(self, compiled: xgrammar.CompiledGrammar, table: TokenTable) -> None:
        self._compiled = compiled
        self._table = table

    def matcher(self) -> XgrammarMatcher:
        return XgrammarMatcher(xgrammar.GrammarMatcher(self._compiled), self._table)


class XgrammarMatcher:
    """A :class:`sgl_core.api.grammar.Matcher`. Text that must come is written as the tokenizer writes it: masks leave no other
    spelling, as llguidance's do."""

    def __init__(self, matcher: xgrammar.GrammarMatcher, table: TokenTable) -> None:
        self._matcher = matcher
        self._table = table
        self._run: tuple[int, ...] | None = None
        """What is forced from here on; None: not known yet."""

    def accept(self, token_id: int) -> bool:
        if self._matcher.is_terminated() or not self._matcher.accept_token(token_id):
            return False
        rest = self._run[1:] if self._run and self._run[0] == token_id else ()
        self._run = rest or None
        return True

    def fill_mask(self, mask: NDArray[np.int32], row: int) -> None:
        run = self.forced()
        if run:
            mask[row] = 0
            mask.view(np.uint32)[row, run[0] >> 5] = np.uint32(1 << (run[0] & 31))
        else:
            self._matcher.fill_next_token_bitmask(torch.from_numpy(mask), row)

    def finished(self) -> bool:
        return bool(self._matcher.is_terminated())

    def forced(self) -> list[int]:
        if self._run is None:
            text = "" if self._matcher.is_terminated() else self._matcher.find_jump_forward_string()
            self._run = self._table.forced(text) if text else ()
        return list(self._run)
