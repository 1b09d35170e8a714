"""A vocabulary as the backends' libraries want it, made once per worker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property

from tokenizers import Tokenizer

from sgl_core.api.grammar import Vocabulary


class TokenTable:
    """The bytes of every token; special tokens have none and are never allowed but where a grammar names them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.size = vocabulary.size
        self.eos = tuple(vocabulary.eos_token_ids)
        self._vocabulary = vocabulary

    @cached_property
    def special(self) -> frozenset[int]:
        """Ids that stand for no text: special tokens, and ids of the model that the tokenizer does not have."""
        named = set(self._vocabulary.special_token_ids) | set(self.eos)
        return frozenset(named | {i for i, b in enumerate(self.tokens) if not b})

    @cached_property
    def tokens(self) -> list[bytes]:
        """[V] the bytes each token stands for, empty for special tokens."""
        special = set(self._vocabulary.special_token_ids) | set(self.eos)
        return [b"" if i in special else self._vocabulary.token_bytes(i) for i in range(self.size)]

    @cached_property
    def special_names(self) -> dict[str, int]:
        """Special tokens by their text, for markers that a model writes as one token."""
        if not self._vocabulary.tokenizer_json:
            return {}
        added = json.loads(self._vocabulary.tokenizer_json).get("added_tokens", [])
        return {t["content"]: t["id"] for t in added if t.get("special")}

    @cached_property
    def _tokenizer(self) -> Tokenizer | None:
        text = self._vocabulary.tokenizer_json
        return Tokenizer.from_str(text) if text else None

    def encode(self, text: str) -> Sequence[int]:
        """Token ids of a text; byte by byte without a tokenizer."""
        if self._tokenizer is not None:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        single = {b: i for i, b in enumerate(self.tokens) if len(b) == 1}
        return [single[bytes([b])] for b in text.encode()]
