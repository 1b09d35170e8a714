"""Building a ``tokenizers`` tokenizer from the vocabulary that a GGUF file carries in its metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from .gguf_file import GgufFile
from .gguf_pretokenizers import PRE_TOKENIZERS
from .special_tokens import set_bos_eos

_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4
_SPACE = "\u2581"


class GgufTokenizerError(ValueError):
    """The file carries no vocabulary, or one of a kind that is not known. The message names file and kind."""


def tokenizer_from_gguf(file: GgufFile) -> Tokenizer:
    """The tokenizer of a GGUF file, adding BOS and EOS as the file asks. Raises :class:`GgufTokenizerError`."""
    metadata = file.metadata
    kind = str(metadata.get("tokenizer.ggml.model", ""))
    tokens: Sequence[str] = metadata.get("tokenizer.ggml.tokens", [])
    if not tokens:
        raise GgufTokenizerError(f"{file.path}: the file carries no tokenizer (no 'tokenizer.ggml.tokens')")
    if kind == "gpt2":
        tokenizer, add_bos = _byte_level(file, tokens)
    elif kind == "llama":
        tokenizer, add_bos = _sentencepiece_bpe(file, tokens), True
    elif kind == "t5":
        tokenizer, add_bos = _unigram(file, tokens), False
    else:
        raise GgufTokenizerError(
            f"{file.path}: tokenizer model {kind!r} is not supported (supported: gpt2, llama, t5); "
            "give a folder with a tokenizer.json by --tokenizer-path"
        )
    _mark_added(tokenizer, tokens, metadata.get("tokenizer.ggml.token_type", ()), byte_level=kind == "gpt2")
    special = special_tokens_from_gguf(metadata)
    set_bos_eos(
        tokenizer,
        special.get("bos_token") if metadata.get("tokenizer.ggml.add_bos_token", add_bos) else None,
        special.get("eos_token") if metadata.get("tokenizer.ggml.add_eos_token", False) else None,
    )
    return tokenizer


def special_tokens_from_gguf(metadata: Mapping[str, Any]) -> dict[str, str]:
    """``bos_token``, ``eos_token``, ``unk_token``, ``pad_token`` as text, as far as the file names them."""
    tokens: Sequence[str] = metadata.get("tokenizer.ggml.tokens", [])
    keys = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}
    ids = {ours: metadata.get(f"tokenizer.ggml.{theirs}_token_id") for theirs, ours in keys.items()}
    return {name: tokens[index] for name, index in ids.items() if index is not None and index < len(tokens)}


def chat_templates_from_gguf(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The templates by name; the unnamed one is ``default``."""
    prefix = "tokenizer.chat_template"
    named = {key[len(prefix) + 1 :]: str(text) for key, text in metadata.items() if key.startswith(prefix + ".")}
    return named | ({"default": str(metadata[prefix])} if prefix in metadata else {})


def _byte_level(file: GgufFile, tokens: Sequence[str]) -> tuple[Tokenizer, bool]:
    name = str(file.metadata.get("tokenizer.ggml.pre", "default"))
    pre = PRE_TOKENIZERS.get(name)
    if pre is None:
        raise GgufTokenizerError(
            f"{file.path}: the pre-tokenizer {name!r} ('tokenizer.ggml.pre') is not known, and guessing would garble text; "
            "give a folder with the model's tokenizer.json by --tokenizer-path"
        )
    merges = [tuple(merge.split(" ", 1)) for merge in file.metadata.get("tokenizer.ggml.merges", ())]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    usable = [merge for merge in merges if len(merge) == 2 and merge[0] + merge[1] in vocabulary]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=usable, ignore_merges=pre.ignore_merges))
    normalizer = pre.normalizer()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre.build()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, pre.add_bos


def _sentencepiece_bpe(file: GgufFile, tokens: Sequence[str]) -> Tokenizer:
    vocabulary = {token: index for index, token in enumerate(tokens)}
    unknown = int(file.metadata.get("tokenizer.ggml.unknown_token_id", 0))
    stored = file.metadata.get("tokenizer.ggml.merges")
    if stored:
        merges = [(left, right) for left, right in (merge.split(" ", 1) for merge in stored)]
    else:
        merges = _merges_by_score(vocabulary, file.metadata.get("tokenizer.ggml.scores", ()))
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token=tokens[unknown], fuse_unk=True, byte_fallback=True)
    )
    prefix = bool(file.metadata.get("tokenizer.ggml.add_space_prefix", True))
    # Like sentencepiece's dummy prefix: one space before the text whatever it begins with, also after a control token.
    before: list[normalizers.Normalizer] = [normalizers.Prepend(_SPACE)] if prefix else []
    tokenizer.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", _SPACE)])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
        + ([decoders.Strip(content=" ", left=1, right=0)] if prefix else [])
    )
    return tokenizer


def _merges_by_score(vocabulary: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """The merges that a scored vocabulary implies: every split of a token into two tokens, best score of the whole first.

    Sentencepiece merges the adjacent pair whose joined piece scores highest; ties fall to the lower ids.
    """
    ranked: list[tuple[float, int, int, str, str]] = []
    for token, index in vocabulary.items():
        score = scores[index] if index < len(scores) else 0.0
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in vocabulary and right in vocabulary:
                ranked.append((-score, vocabulary[left], vocabulary[right], left, right))
    ranked.sort()
    return [(left, right) for *_, left, right in ranked]


def _unigram(file: GgufFile, tokens: Sequence[str]) -> Tokenizer:
    scores = file.metadata.get("tokenizer.ggml.scores")
    if not scores:
        raise GgufTokenizerError(f"{file.path}: a t5 tokenizer needs 'tokenizer.ggml.scores', which is missing")
    unknown = int(file.metadata.get("tokenizer.ggml.unknown_token_id", 2))
    byte_fallback = "<0x00>" in tokens
    tokenizer = Tokenizer(models.Unigram(list(zip(tokens, scores, strict=True)), unknown, byte_fallback))
    prefix = "always" if file.metadata.get("tokenizer.ggml.add_space_prefix", True) else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=_SPACE, prepend_scheme=prefix)
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Metaspace(replacement=_SPACE, prepend_scheme=prefix)]
    )
    return tokenizer


def _mark_added(tokenizer: Tokenizer, tokens: Sequence[str], types: Sequence[int], *, byte_level: bool) -> None:
    """Control tokens become special, user-defined ones are matched whole but are ordinary text."""
    special, plain = [], []
    for index, kind in enumerate(types[: len(tokens)]):
        if kind == _CONTROL or (kind == _UNKNOWN and not byte_level):
            special.append(AddedToken(tokens[index], special=True, normalized=False))
        elif kind == _USER_DEFINED:
            plain.append(AddedToken(tokens[index], special=False, normalized=False))
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(plain)
