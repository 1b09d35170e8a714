"""Vocabularies for the grammar tests: single bytes, and a small tokenizer with special tokens."""

from __future__ import annotations

import numpy as np
import pytest

from sgl_grammar import backends


class ByteVocabulary:
    """Token i is byte i; then the end of sequence and two special tokens."""

    size = 264
    eos_token_ids = (256,)
    special_token_ids = frozenset({256, 257, 258})
    tokenizer_json = ""

    def token_bytes(self, token_id):
        return bytes([token_id]) if token_id < 256 else b""


EOS = 256


def accepts(compiled, text):
    """Whether the constraint takes a text whole, token by token as masks allow, and may end after it."""
    matcher = compiled.matcher()
    mask = np.zeros((1, (ByteVocabulary.size + 31) // 32), dtype=np.int32)
    for token in [*text, EOS]:
        matcher.fill_mask(mask, 0)
        allowed = bool(int(mask[0, token >> 5]) >> (token & 31) & 1)
        assert allowed == matcher.accept(token) or matcher.finished()
        if not allowed:
            return False
    return True


@pytest.fixture(scope="session", params=["llguidance", "xgrammar", "outlines"])
def backend(request):
    """Each backend over single bytes."""
    return getattr(backends, request.param)(ByteVocabulary())


@pytest.fixture(scope="session")
def takes():
    return accepts


@pytest.fixture(scope="session")
def byte_vocabulary():
    return ByteVocabulary()
