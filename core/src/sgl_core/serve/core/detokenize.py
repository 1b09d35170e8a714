"""Incremental detokenization: token ids in, text out, whole characters only, nothing twice, nothing lost.

Where a tokenizer's decoder is a map from tokens to bytes (byte-level BPE, SentencePiece with byte fallback) text is
made from token bytes by an incremental UTF-8 decoder. Any other decoder is asked for the text of a small window.
"""

from __future__ import annotations

import codecs
import contextlib
import json
from collections.abc import Sequence
from typing import Any, Protocol, cast

from .tokenizer import TextTokenizer

_WINDOW = 6
"""Tokens of context that a window decode starts with; decoders look at most a few tokens back."""


class Detokenizer(Protocol):
    """One choice's text so far."""

    def push(self, token_id: int) -> str:
        """Text that became certain with this token; may be empty."""
        ...

    def finish(self) -> str:
        """The rest: one U+FFFD where the text was cut inside a character."""
        ...


class ByteDetokenizer:
    """From token bytes. ``pieces`` is shared by all requests of one tokenizer and one treatment of special tokens."""

    __slots__ = ("_decoder", "_inside", "_pieces", "_strip")

    def __init__(self, pieces: Pieces, strip_space: bool) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip = strip_space
        self._inside = False

    def push(self, token_id: int) -> str:
        piece = self._pieces[token_id]
        if self._strip and piece:
            self._strip = False
            return self._decode(as_bytes(piece).removeprefix(b" "))
        if self._inside or type(piece) is bytes:
            return self._decode(as_bytes(piece))
        return cast("str", piece)

    def _decode(self, piece: bytes) -> str:
        text = self._decoder.decode(piece)
        self._inside = bool(self._decoder.getstate()[0])
        return text

    def finish(self) -> str:
        return self._decoder.decode(b"", True)


class Pieces(dict[int, "str | bytes"]):
    """Token id to what it stands for, filled as ids are met: a text, or bytes where characters are cut.

    Special tokens are empty, or their text when ``special`` is true.
    """

    def __init__(self, tokenizer: TextTokenizer, special: bool) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._special = special

    def __missing__(self, token_id: int) -> str | bytes:
        tokenizer = self._tokenizer
        piece: str | bytes
        if token_id in tokenizer.special_token_ids:
            piece = tokenizer.decode([token_id], skip_special=False) if self._special else ""
        else:
            piece = tokenizer.token_bytes(token_id)
            with contextlib.suppress(UnicodeDecodeError):
                piece = piece.decode()
        self[token_id] = piece
        return piece


def as_bytes(piece: str | bytes) -> bytes:
    """A piece as its bytes."""
    return piece.encode() if isinstance(piece, str) else piece


class WindowDetokenizer:
    """For decoders that are more than a map to bytes: the text of a token is what the window's text gains by it.

    A window text that ends in U+FFFD may still change and is held. What was given out is never given again, even where the decoder
    rewrites a character it had already produced.
    """

    __slots__ = ("_given", "_ids", "_skip_special", "_start", "_tokenizer")

    def __init__(self, tokenizer: TextTokenizer, skip_special: bool, context: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._ids = list(context[-_WINDOW:])
        self._start = 0
        self._given = len(self._text())

    def _text(self) -> str:
        return self._tokenizer.decode(self._ids[self._start :], skip_special=self._skip_special)

    def push(self, token_id: int) -> str:
        self._ids.append(token_id)
        text = self._text()
        certain = text.rstrip("\ufffd")
        new = certain[self._given :]
        if new:
            self._given = len(certain)
        if certain == text and len(self._ids) - self._start > 2 * _WINDOW:
            self._move(text)
        return new

    def _move(self, text: str) -> None:
        """Drop the front of the window where the rest decodes to the same tail without it."""
        start = len(self._ids) - _WINDOW
        rest = self._tokenizer.decode(self._ids[start:], skip_special=self._skip_special)
        if rest and text.endswith(rest):
            del self._ids[:start]
            self._start = 0
            self._given = len(rest)

    def finish(self) -> str:
        text = self._text()
        rest = text[self._given :]
        self._given = len(text)
        return "\ufffd" if rest and not rest.strip("\ufffd") else rest


class DetokenizerFactory:
    """Makes the detokenizer that suits a tokenizer; one per front."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self.exact, self._strips = decoder_kind(tokenizer.decoder_json)
        self._plain = Pieces(tokenizer, special=False)
        self._special = Pieces(tokenizer, special=True)

    def make(self, *, skip_special: bool = True, context: Sequence[int] = ()) -> Detokenizer:
        """A detokenizer for text that follows the tokens ``context`` (empty: for a text of its own)."""
        if self.exact:
            return ByteDetokenizer(self._plain if skip_special else self._special, self._strips and not context)
        return WindowDetokenizer(self._tokenizer, skip_special, context)

    def raw(self, token_id: int) -> bytes:
        """The bytes a token stands for, special tokens with their text: for logprobs."""
        return as_bytes(self._special[token_id])

    def text(self, token_ids: Sequence[int], *, skip_special: bool = True) -> str:
        """The text of a finished sequence of tokens, by the same code as a stream of them."""
        detokenizer = self.make(skip_special=skip_special)
        return "".join([detokenizer.push(token) for token in token_ids]) + detokenizer.finish()


def decoder_kind(decoder_json: str) -> tuple[bool, bool]:
    """(tokens map to bytes, the first space of a text is dropped) of a serialized decoder."""
    decoder: Any = json.loads(decoder_json) if decoder_json else {}
    steps = decoder.get("decoders", []) if decoder.get("type") == "Sequence" else [decoder]
    kinds = [step.get("type") for step in steps]
    if kinds == ["ByteLevel"]:
        return True, False
    if "ByteFallback" in kinds and set(kinds) <= {"Replace", "ByteFallback", "Fuse", "Strip"}:
        replaces = [step for step in steps if step["type"] == "Replace"]
        strips = [step for step in steps if step["type"] == "Strip"]
        spaces = all(step.get("pattern") == {"String": "\u2581"} and step.get("content") == " " for step in replaces)
        heads = all(step.get("content") == " " and (step.get("start"), step.get("stop")) == (1, 0) for step in strips)
        return spaces and heads, bool(strips)
    return False, False
