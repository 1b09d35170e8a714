"""BOS and EOS that a tokenizer adds by itself: which it adds now, and setting what the model's configuration asks for."""

from __future__ import annotations

from tokenizers import Tokenizer, processors


def added_ids(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The ids that ``encode`` with special tokens puts before and after a text."""
    plain = tokenizer.encode("a", add_special_tokens=False).ids
    full = tokenizer.encode("a", add_special_tokens=True).ids
    for start in range(len(full) - len(plain) + 1):
        if full[start : start + len(plain)] == plain:
            return full[:start], full[start + len(plain) :]
    return [], []


def set_bos_eos(tokenizer: Tokenizer, bos: str | None, eos: str | None) -> None:
    """Make ``encode`` add exactly these special tokens (``None``: none)."""
    pieces = [token for token in (bos, "$A", eos) if token is not None]
    ids = {token: tokenizer.token_to_id(token) for token in (bos, eos) if token is not None}
    missing = [token for token, index in ids.items() if index is None]
    if missing:
        raise ValueError(f"the special token {missing[0]!r} is not in the vocabulary")
    if not ids:
        tokenizer.post_processor = processors.Sequence([])  # None cannot be assigned in every version of the library
        return
    # Lists, not one string: a token may hold a space.
    second = ["$B:1" if piece == "$A" else f"{piece}:1" for piece in pieces]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=pieces,
        pair=[*pieces, *second],
        special_tokens=[(token, index) for token, index in ids.items() if index is not None],
    )
