"""Tokenizers built from GGUF metadata, against the tokenizer that the metadata was made of."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers

from sgl_core.checkpoint import Tokenizer, TokenizerError, describe, load_tokenizer
from sgl_core.checkpoint.gguf_pretokenizers import PRE_TOKENIZERS

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and the dog doesn't mind at all.",
    "In 2024 there were 12345 foxes; they'll be 67890 by 2030. ٣٤٥ ½",
    "def main():\n    return 'hello world'\n\n\nprint(main())\n",
    "Übergröße naïve café — 東京タワー 世界 Здравствуйте мир नमस्ते مرحبا 🤣🏳️‍🌈",
]
TEXTS = st.one_of(
    st.text(),
    st.text(alphabet=" \n\t\r'sStTlL12٣½a éB,.!?中🤣\u0301\u200d\u00a0"),
    st.lists(st.sampled_from(["<|im_start|>", " 12", "'ll", "\r\n", "   ", "Héllo", "世界", "fox "])).map("".join),
)


def metadata_of(tokenizer: Backend, pre: str) -> dict[str, Any]:
    import json

    state = json.loads(tokenizer.to_str())
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    tokens = [token for token, _ in sorted(vocabulary.items(), key=lambda item: item[1])]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in special else 1 for token in tokens],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in state["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 2,
    }


@pytest.fixture
def smollm(make_gguf: Callable[..., Path], byte_bpe: Backend) -> Tokenizer:
    metadata = metadata_of(byte_bpe, "smollm") | {
        "tokenizer.chat_template": "{{ messages }}",
        "tokenizer.chat_template.tool_use": "{{ tools }}",
    }
    return load_tokenizer(describe(make_gguf(metadata=metadata, vocab=416)))


@pytest.fixture(scope="module")
def smollm_shared(tmp_path_factory: pytest.TempPathFactory, byte_bpe: Backend) -> Tokenizer:
    return build(tmp_path_factory, metadata_of(byte_bpe, "smollm"))


def build(tmp_path_factory: pytest.TempPathFactory, metadata: dict[str, Any]) -> Tokenizer:
    import numpy as np
    from gguf import GGUFWriter

    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    writer = GGUFWriter(str(path), "llama")
    base = {"block_count": 1, "context_length": 8, "embedding_length": 4, "feed_forward_length": 4}
    for key, value in {**base, "attention.head_count": 1}.items():
        writer.add_uint32(f"llama.{key}", value)
    for key, value in metadata.items():
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return load_tokenizer(describe(path))


@given(TEXTS)
@settings(deadline=None)
def test_smollm_equals_the_original(smollm_shared: Tokenizer, byte_bpe: Backend, text: str) -> None:
    ids = smollm_shared.encode(text)
    assert ids == byte_bpe.encode(text).ids
    assert smollm_shared.decode(ids, skip_special=False) == text
    if not set(ids) & smollm_shared.special_token_ids:
        assert b"".join(smollm_shared.token_bytes(index) for index in ids) == text.encode()


# The pre_tokenizer of each family's published tokenizer.json, written with the library's own parts.
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
DIGITS = pre_tokenizers.Digits(individual_digits=True)


@pytest.mark.parametrize(
    ("name", "original"),
    [
        ("gpt-2", GPT2),
        ("smollm", pre_tokenizers.Sequence([DIGITS, GPT2])),
        ("starcoder", pre_tokenizers.Sequence([DIGITS, GPT2])),
    ],
)
def test_cuts_equal_the_library_parts(name: str, original: pre_tokenizers.PreTokenizer) -> None:
    ours = PRE_TOKENIZERS[name].build()

    @given(TEXTS)
    @settings(deadline=None, max_examples=50)
    def check(text: str) -> None:
        cut = [piece for piece, _ in ours.pre_tokenize_str(text)]
        assert cut == [piece for piece, _ in original.pre_tokenize_str(text)]

    check()


@pytest.mark.parametrize(
    ("name", "text", "pieces"),
    [
        ("smollm", "in 2024", ["in", " ", "2", "0", "2", "4"]),
        ("gpt-2", "in 2024, we'll", ["in", " 2024", ",", " we", "'ll"]),
        ("llama-bpe", "in 2024, WE'LL  go\n\n", ["in", " ", "202", "4", ",", " WE", "'LL", " ", " go", "\n\n"]),
        ("qwen2", "in 2024!\n x", ["in", " ", "2", "0", "2", "4", "!\n", " x"]),
        ("deepseek-v3", "东京tower 1234", ["东京", "tower", " ", "123", "4"]),
        ("tekken", "HelloWorld 42", ["Hello", "World", " ", "4", "2"]),
        ("gpt-4o", "don't 1234", ["don't", " ", "123", "4"]),
        ("default", "a1234 b!", ["a", "123", "4", " b", "!"]),
    ],
)
def test_cuts_by_example(name: str, text: str, pieces: list[str]) -> None:
    byte_level = decoders.ByteLevel()
    cut = [byte_level.decode([piece]) for piece, _ in PRE_TOKENIZERS[name].build().pre_tokenize_str(text)]
    assert cut == pieces


def test_every_pre_tokenizer_loses_nothing() -> None:
    text = "Héllo  wörld\n\n\t12345 ½ don't 東京 🤣 (a|b) -- \r\n end "
    for name, pre in PRE_TOKENIZERS.items():
        joined = "".join(piece for piece, _ in pre.build().pre_tokenize_str(text))
        assert decoders.ByteLevel().decode([joined]) == text, name


def test_unknown_pre_tokenizer_is_named(make_gguf: Callable[..., Path], byte_bpe: Backend) -> None:
    files = describe(make_gguf(metadata=metadata_of(byte_bpe, "martian-v9")))
    with pytest.raises(TokenizerError, match=r"tiny\.gguf: the pre-tokenizer 'martian-v9'.*--tokenizer-path"):
        load_tokenizer(files)


def test_other_refusals(make_gguf: Callable[..., Path]) -> None:
    with pytest.raises(TokenizerError, match="carries no tokenizer"):
        load_tokenizer(describe(make_gguf()))
    odd = {"tokenizer.ggml.model": "rwkv", "tokenizer.ggml.tokens": ["a"]}
    with pytest.raises(TokenizerError, match=r"'rwkv' is not supported"):
        load_tokenizer(describe(make_gguf(metadata=odd)))


def test_special_tokens_sizes_and_templates(smollm: Tokenizer) -> None:
    assert (smollm.vocab_size, smollm.size) == (400, 416)
    assert (smollm.bos_token, smollm.eos_token, smollm.eos_token_ids) == ("<|bos|>", "<|im_end|>", (2,))
    assert smollm.special_token_ids == {0, 1, 2}
    assert not smollm.adds_bos
    assert smollm.chat_template == "{{ messages }}"
    assert smollm.chat_templates == {"default": "{{ messages }}", "tool_use": "{{ tools }}"}
    assert smollm.encode("<|im_start|>a<|im_end|>")[::2] == [1, 2]
    assert smollm.token_bytes(1) == b""
    assert smollm.token_bytes(410) == b""


@pytest.mark.parametrize(("flag", "expected"), [(True, [0]), (False, []), (None, [0])])
def test_bos_flag_and_the_default_of_llama_bpe(
    make_gguf: Callable[..., Path], byte_bpe: Backend, flag: bool | None, expected: list[int]
) -> None:
    metadata = metadata_of(byte_bpe, "llama-bpe") | ({} if flag is None else {"tokenizer.ggml.add_bos_token": flag})
    tokenizer = load_tokenizer(describe(make_gguf(metadata=metadata)))
    assert tokenizer.encode("")[:1] == expected
    assert tokenizer.adds_bos is bool(expected)
    assert 0 not in tokenizer.encode("fox", add_special=False)
    assert tokenizer.encode_rendered("<|bos|>fox").count(0) == 1
    assert tokenizer.encode_rendered("fox").count(0) == len(expected)


def test_user_defined_tokens_are_whole_but_not_special(make_gguf: Callable[..., Path], byte_bpe: Backend) -> None:
    metadata = metadata_of(byte_bpe, "smollm")
    metadata["tokenizer.ggml.tokens"].append("<think>")
    metadata["tokenizer.ggml.token_type"].append(4)
    tokenizer = load_tokenizer(describe(make_gguf(metadata=metadata)))
    ids = tokenizer.encode("fox<think>fox")
    assert 400 in ids
    assert tokenizer.decode(ids) == "fox<think>fox"
    assert tokenizer.token_bytes(400) == b"<think>"
    assert 400 not in tokenizer.special_token_ids


@pytest.fixture(scope="module")
def pieces() -> sentencepiece.SentencePieceProcessor:
    """A sentencepiece BPE model set up as Llama 2's is."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 4),
        model_writer=model,
        model_type="bpe",
        vocab_size=420,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        split_digits=True,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def sentencepiece_metadata(pieces: sentencepiece.SentencePieceProcessor) -> dict[str, Any]:
    def kind(index: int) -> int:
        if pieces.is_unknown(index):
            return 2
        if pieces.is_control(index):
            return 3
        return 6 if pieces.is_byte(index) else 1

    ids = range(pieces.vocab_size())
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [pieces.id_to_piece(index) for index in ids],
        "tokenizer.ggml.scores": [pieces.get_score(index) for index in ids],
        "tokenizer.ggml.token_type": [kind(index) for index in ids],
        "tokenizer.ggml.bos_token_id": pieces.bos_id(),
        "tokenizer.ggml.eos_token_id": pieces.eos_id(),
        "tokenizer.ggml.unknown_token_id": pieces.unk_id(),
    }


@pytest.fixture(scope="module")
def spm(tmp_path_factory: pytest.TempPathFactory, pieces: sentencepiece.SentencePieceProcessor) -> Tokenizer:
    return build(tmp_path_factory, sentencepiece_metadata(pieces))


PLAIN = st.one_of(
    st.text(alphabet=st.characters(exclude_characters="\u2581\x00", exclude_categories=["Cs"])),
    st.lists(st.sampled_from(["fox ", " the", "  ", "12", "é", "東京", "\n", "dog", "🤣"])).map("".join),
).filter(lambda text: not any(mark in text for mark in ("<s>", "</s>", "<unk>", "<0x")))


@given(PLAIN)
@settings(deadline=None, max_examples=200)
def test_sentencepiece_equals_the_original(
    spm: Tokenizer, pieces: sentencepiece.SentencePieceProcessor, text: str
) -> None:
    ids = spm.encode(text, add_special=False)
    assert ids == pieces.encode(text)
    assert spm.decode(ids) == text == pieces.decode(ids)
    if ids:
        assert b"".join(spm.token_bytes(index) for index in ids) == b" " + text.encode()


def test_sentencepiece_details(spm: Tokenizer) -> None:
    assert spm.kind == "sentencepiece"
    assert spm.encode("fox")[0] == spm.bos_token_id == 1
    assert spm.adds_bos
    emoji = spm.encode("🙂", add_special=False)
    assert b"".join(spm.token_bytes(index) for index in emoji) == b" " + "🙂".encode()
    assert spm.token_bytes(1) == b""


def test_unigram_equals_the_original(tmp_path_factory: pytest.TempPathFactory) -> None:
    import json

    original = Backend(models.Unigram())
    original.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    original.decoder = decoders.Metaspace(replacement="\u2581", prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=200, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    original.train_from_iterator(CORPUS, trainer)
    vocabulary = json.loads(original.to_str())["model"]["vocab"]
    ours = build(
        tmp_path_factory,
        {
            "tokenizer.ggml.model": "t5",
            "tokenizer.ggml.tokens": [token for token, _ in vocabulary],
            "tokenizer.ggml.scores": [float(score) for _, score in vocabulary],
            "tokenizer.ggml.token_type": [3, 3, 2] + [1] * (len(vocabulary) - 3),
            "tokenizer.ggml.unknown_token_id": 2,
            "tokenizer.ggml.eos_token_id": 1,
            "tokenizer.ggml.add_eos_token": True,
        },
    )
    for text in CORPUS:
        assert ours.encode(text, add_special=False) == original.encode(text).ids
        assert ours.encode(text)[-1] == 1
    assert ours.decode(ours.encode("the lazy dog")) == "the lazy dog"
