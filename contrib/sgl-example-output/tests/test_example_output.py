"""The package's own tests, as a stranger would write them."""

from __future__ import annotations

import numpy as np
import pytest
from sgl_example_output.grammar import WordsBackend
from sgl_example_output.parser import ExampleCalls

from sgl_core.api import GrammarRequest
from sgl_core.api.grammar import GrammarError
from sgl_core.api.parsers import CallArguments, CallStart, ParseContext, TextDelta

TEXT = 'Look: <<call f {"a": 1}>> and <b'


@pytest.mark.parametrize("size", [1, 3, 100])
def test_calls_come_out_of_any_cut(size):
    parser = ExampleCalls(ParseContext())
    events = [e for i in range(0, len(TEXT), size) for e in parser.feed(TEXT[i : i + size])] + parser.finish()
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Look:  and <b"
    assert [e for e in events if not isinstance(e, TextDelta)] == [CallStart(0, "f"), CallArguments(0, '{"a": 1}')]


class Bytes:
    size, eos_token_ids, special_token_ids, tokenizer_json = 257, (256,), frozenset({256}), ""

    def token_bytes(self, token_id):
        return bytes([token_id]) if token_id < 256 else b""


def test_only_the_words_are_allowed():
    matcher = WordsBackend(Bytes()).compile(GrammarRequest(kind="regex", text="(yes|no)")).matcher()
    mask = np.zeros((1, 9), dtype=np.int32)
    matcher.fill_mask(mask, 0)
    assert [t for t in range(257) if int(mask[0, t // 32]) >> t % 32 & 1] == [ord("n"), ord("y")]
    assert all(matcher.accept(t) for t in b"no")
    assert matcher.finished()
    with pytest.raises(GrammarError):
        WordsBackend(Bytes()).compile(GrammarRequest(kind="regex", text="a+"))
