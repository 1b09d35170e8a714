"""The exact bytes a vocabulary entry stands for, by the kind of vocabulary (byte-level, sentencepiece, word pieces)."""

from __future__ import annotations

import re

from tokenizers import Tokenizer

_BYTE_TOKEN = re.compile(r"^<0x([0-9A-Fa-f]{2})>$")
_SPACE = "\u2581"


def _byte_alphabet() -> dict[str, int]:
    """The printable characters that byte-level BPE writes for bytes: bytes printable in Latin-1 stand for themselves,
    the others are numbered upwards from U+0100 (the scheme that GPT-2 introduced)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


BYTE_OF = _byte_alphabet()
CHAR_OF = {byte: char for char, byte in BYTE_OF.items()}


def vocabulary_kind(tokenizer: Tokenizer) -> str:
    """``byte_level``, ``sentencepiece``, ``wordpiece`` or ``plain``, told from the decoder."""
    if tokenizer.decoder is None:
        return "plain"
    state = tokenizer.decoder.__getstate__()  # the decoder's JSON; a Sequence shows its members nowhere else
    text = state.decode() if isinstance(state, bytes) else str(state)
    if '"ByteLevel"' in text:
        return "byte_level"
    if '"ByteFallback"' in text or '"Metaspace"' in text or _SPACE in text:
        return "sentencepiece"
    return "wordpiece" if '"WordPiece"' in text else "plain"


def bytes_of_token(kind: str, token: str) -> bytes:
    """The bytes of an ordinary (not added) token as the vocabulary spells it."""
    if kind == "byte_level":
        try:
            return bytes(BYTE_OF[char] for char in token)
        except KeyError:
            return token.encode("utf-8", "surrogatepass")
    if kind == "sentencepiece":
        byte = _BYTE_TOKEN.match(token)
        if byte is not None:
            return bytes([int(byte[1], 16)])
        return token.replace(_SPACE, " ").encode("utf-8", "surrogatepass")
    if kind == "wordpiece":
        return token[2:].encode() if token.startswith("##") else b" " + token.encode()
    return token.encode("utf-8", "surrogatepass")
