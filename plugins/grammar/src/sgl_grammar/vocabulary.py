"""A vocabulary as the backends' libraries want it, made once per worker."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache

from tokenizers import Tokenizer

from sgl_core.api.grammar import Vocabulary


class TokenTable:
    """The bytes of every token; special tokens have none and are never allowed but where a grammar names them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.size = vocabulary.size
        self.eos = tuple(vocabulary.eos_token_ids)
        self._vocabulary = vocabulary
        self._forced = lru_cache(4096)(self._find_forced)

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

    @cached_property
    def _sorted(self) -> list[bytes]:
        return sorted({text for text in self.tokens if text})

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._sorted), default=0)

    def forced(self, text: str) -> tuple[int, ...]:
        """The tokens by which the tokenizer writes a text that must come, as far as they do not depend on what comes behind it:
        a token that could also be one with the text's end and more is left out."""
        return self._forced(text)

    def _find_forced(self, text: str) -> tuple[int, ...]:
        data = text.encode()
        start = max(0, len(data) - self._longest)
        certain = next((at for at in range(start, len(data)) if self._begins_longer(data[at:])), len(data))
        taken, size = [], 0
        for token in self._tokens_of(text):
            size += len(self.tokens[token])
            if size > certain:
                break
            taken.append(token)
        return tuple(taken)

    def _tokens_of(self, text: str) -> tuple[int, ...]:
        """Tokens whose bytes are the text's; empty where the tokenizer adds something that cannot be taken off."""
        wanted = text.encode()
        for before in ("", "\n"):
            ids = tuple(self.encode(before + text))
            size = sum(len(self.tokens[i]) for i in ids)
            while size > len(wanted):
                size -= len(self.tokens[ids[0]])
                ids = ids[1:]
            if b"".join(self.tokens[i] for i in ids) == wanted and not self.special.intersection(ids):
                return ids
        return ()

    def _begins_longer(self, text: bytes) -> bool:
        """Whether some token begins with the text and goes on."""
        at = bisect_right(self._sorted, text)
        return at < len(self._sorted) and self._sorted[at].startswith(text)

    def encode(self, text: str) -> Sequence[int]:
        """Token ids of a text; byte by byte without a tokenizer."""
        if self._tokenizer is not None:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        single = {b: i for i, b in enumerate(self.tokens) if len(b) == 1}
        return [single[bytes([b])] for b in text.encode()]
