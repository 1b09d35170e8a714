"""Incremental detokenization: field cases 59, 61, 62, 64, 65, and equality with the tokenizer's own decode for any cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_core.serve.core.detokenize import DetokenizerFactory, WindowDetokenizer, decoder_kind
from sgl_core.serve.testing import byte_tokenizer, sentencepiece_tokenizer

BYTES = byte_tokenizer([" logs", " and", "hello"])
PIECES = sentencepiece_tokenizer(["▁leading", "▁x", "▁hello"])


class Snapshots:
    """A tokenizer whose decode gives a fixed text for each number of tokens."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = ["", *texts]

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        return self.texts[len(ids)]


def stream(factory: DetokenizerFactory, ids: Sequence[int], **options: object) -> list[str]:
    detokenizer = factory.make(**options)
    return [detokenizer.push(token) for token in ids] + [detokenizer.finish()]


@pytest.mark.field_case("59")
def test_case_59_a_character_is_not_sent_twice() -> None:
    texts = ["A 世\ufffd", "A 世a\ufffd", "A 世ab"]
    detokenizer = WindowDetokenizer(Snapshots(texts), True)
    assert "".join(detokenizer.push(token) for token in range(3)) + detokenizer.finish() == "A 世ab"


def test_text_that_was_given_is_never_taken_back() -> None:
    detokenizer = WindowDetokenizer(Snapshots(["abc", "ab", "abcd"]), True)
    assert [detokenizer.push(token) for token in range(3)] == ["abc", "", "d"]


@pytest.mark.field_case("61")
@pytest.mark.parametrize("parts", [[b"\xf0\x9f", b"\xa4", b"\xa3"], [b"\xf0\x9f\x98", b"\x80"]])
@pytest.mark.parametrize("tokenizer", [BYTES, PIECES], ids=["byte_level", "sentencepiece"])
def test_case_61_an_emoji_in_pieces_comes_whole(tokenizer, parts: list[bytes]) -> None:
    factory = DetokenizerFactory(tokenizer)
    by_bytes = {tokenizer.token_bytes(token): token for token in range(tokenizer.vocab_size)}
    ids = [by_bytes[bytes([byte])] for part in parts for byte in part]
    pieces = stream(factory, ids)
    assert pieces == ["", "", "", b"".join(parts).decode(), ""]
    assert b"".join(factory.raw(token) for token in ids) == b"".join(parts)


@pytest.mark.field_case("61")
def test_case_61_a_cut_character_is_one_replacement_at_the_end() -> None:
    ids = BYTES.encode("a🤣", False)[:-1]
    pieces = stream(DetokenizerFactory(BYTES), ids)
    assert "".join(pieces[:-1]) == "a"
    assert pieces[-1] == "\ufffd"


@pytest.mark.field_case("62")
@pytest.mark.parametrize("text", ["e\u0301x", "\u2764\ufe0f", "\U0001f3f3\ufe0f\u200d\U0001f308"])
@pytest.mark.parametrize("tokenizer", [BYTES, PIECES], ids=["byte_level", "sentencepiece"])
def test_case_62_combining_marks(tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, False)
    assert "".join(stream(DetokenizerFactory(tokenizer), ids)) == tokenizer.decode(ids) == text


@pytest.mark.field_case("64")
def test_case_64_leading_space() -> None:
    ids = [PIECES.id_of(piece) for piece in ("▁", "▁leading", "▁x")]
    assert "".join(stream(DetokenizerFactory(PIECES), ids)) == " leading x" == PIECES.decode(ids)
    ids = BYTES.encode(" hello", False)
    assert "".join(stream(DetokenizerFactory(BYTES), ids)) == " hello"


def test_a_text_that_goes_on_keeps_its_first_space() -> None:
    context = PIECES.encode("say", True)
    assert "".join(stream(DetokenizerFactory(PIECES), [PIECES.id_of("▁hello")], context=context)) == " hello"


@pytest.mark.field_case("65")
@pytest.mark.parametrize("chunk", [1, 2, 8])
def test_case_65_chunk_borders(chunk: int) -> None:
    ids = BYTES.encode("locating logs and exploring", False)
    detokenizer = DetokenizerFactory(BYTES).make()
    groups = [ids[at : at + chunk] for at in range(0, len(ids), chunk)]
    assert "".join("".join(map(detokenizer.push, group)) for group in groups) == "locating logs and exploring"


def test_special_tokens_are_left_out_or_shown() -> None:
    ids = BYTES.encode("a<|im_end|>b", False)
    factory = DetokenizerFactory(BYTES)
    assert factory.text(ids) == "ab"
    assert factory.text(ids, skip_special=False) == "a<|im_end|>b"


def test_decoders_that_are_more_than_a_map_to_bytes_are_told() -> None:
    assert decoder_kind('{"type":"WordPiece","prefix":"##","cleanup":true}') == (False, False)
    assert decoder_kind('{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"}') == (False, False)
    assert decoder_kind("") == (False, False)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=40))
def test_any_text_streams_as_it_decodes(text: str) -> None:
    ids = BYTES.encode(text, False)
    pieces = stream(DetokenizerFactory(BYTES), ids)
    assert "".join(pieces) == text
    window = WindowDetokenizer(BYTES, True)
    assert "".join(window.push(token) for token in ids) + window.finish() == text.replace("\ufffd", "\ufffd")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, BYTES.vocab_size - 1), max_size=30))
def test_any_tokens_stream_as_they_decode(ids: list[int]) -> None:
    assert "".join(stream(DetokenizerFactory(BYTES), ids)) == BYTES.decode(ids)
