"""GGUF metadata as a Hugging Face config."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sgl_core.checkpoint import CheckpointError, describe

ROWS = np.zeros((32, 32), np.float32)


def test_llama(make_gguf: Callable[..., Path]) -> None:
    config = describe(make_gguf(metadata={"llama.rope.dimension_count": 8})).config
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["model_type"] == "llama"
    assert (config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]) == (32, 64, 2)
    assert (config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]) == (4, 2, 8)
    assert (config["rms_norm_eps"], config["rope_theta"], config["rope_scaling"]) == (1e-5, 50000.0, None)
    assert (config["vocab_size"], config["max_position_embeddings"]) == (8, 512)
    assert config["tie_word_embeddings"] is True
    assert config["attention_bias"] is False
    assert config["torch_dtype"] == "float32"
    assert "quantization_config" not in config


def test_head_of_its_own_is_not_tied(make_gguf: Callable[..., Path]) -> None:
    files = describe(make_gguf(tensors={"output.weight": np.zeros((8, 32), np.float32)}))
    assert files.config["tie_word_embeddings"] is False
    assert files.weight_bytes == 2 * 8 * 32 * 4


@pytest.mark.parametrize(
    ("arch", "name"),
    [("qwen2", "Qwen2ForCausalLM"), ("qwen3", "Qwen3ForCausalLM"), ("mistral", "MistralForCausalLM")],
)
def test_other_architectures(make_gguf: Callable[..., Path], arch: str, name: str) -> None:
    metadata = {f"{arch}.attention.key_length": 16, f"{arch}.attention.sliding_window": 128}
    config = describe(make_gguf(arch=arch, metadata=metadata, tensors={"blk.0.attn_q.bias": ROWS[0]})).config
    assert config["architectures"] == [name]
    assert (config["head_dim"], config["sliding_window"], config["attention_bias"]) == (16, 128, True)


def test_dtype_and_quantization(make_gguf: Callable[..., Path]) -> None:
    half = describe(make_gguf(tensors={"blk.0.attn_q.weight": ROWS.astype(np.float16)}, name="half.gguf"))
    assert half.config["torch_dtype"] == "float16"


def test_rope_scalings(make_gguf: Callable[..., Path]) -> None:
    linear = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    assert describe(make_gguf(metadata=linear)).config["rope_scaling"] == {"rope_type": "linear", "factor": 4.0}
    yarn = {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 128,
        "llama.rope.scaling.yarn_beta_fast": 32.0,
    }
    assert describe(make_gguf(metadata=yarn)).config["rope_scaling"] == {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 128,
        "beta_fast": 32.0,
    }
    with pytest.raises(CheckpointError, match="'su' is not supported"):
        describe(make_gguf(metadata={"llama.rope.scaling.type": "su"}))


@pytest.mark.parametrize(("factor", "original"), [(8.0, 8192), (32.0, 8192), (8.0, 4096)])
def test_llama3_scaling_is_recovered_from_the_frequency_factors(
    make_gguf: Callable[..., Path], factor: float, original: int
) -> None:
    theta, dim = 500000.0, 128
    divisors = []
    for i in range(0, dim, 2):  # the published Llama 3.1 rule, written out
        wavelength = 2 * math.pi * theta ** (i / dim)
        if wavelength < original / 4:
            divisors.append(1.0)
        elif wavelength > original:
            divisors.append(factor)
        else:
            smooth = (original / wavelength - 1) / 3
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    path = make_gguf(
        metadata={"llama.rope.freq_base": theta}, tensors={"rope_freqs.weight": np.array(divisors, np.float32)}
    )
    assert describe(path).config["rope_scaling"] == {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": original,
    }


def test_end_tokens(make_gguf: Callable[..., Path]) -> None:
    files = describe(
        make_gguf(
            metadata={
                "tokenizer.ggml.tokens": ["a", "<s>", "</s>", "<|eot_id|>", "<|eom_id|>"],
                "tokenizer.ggml.token_type": [1, 3, 3, 3, 1],
                "tokenizer.ggml.bos_token_id": 1,
                "tokenizer.ggml.eos_token_id": 2,
            }
        )
    )
    assert files.config["eos_token_id"] == 2
    assert files.config["bos_token_id"] == 1
    assert files.generation_config == {"eos_token_id": [2, 3]}


def test_refusals_name_file_and_reason(make_gguf: Callable[..., Path]) -> None:
    with pytest.raises(CheckpointError, match=r"tiny\.gguf.*'bert' is not supported \(supported: llama"):
        describe(make_gguf(arch="bert"))
    with pytest.raises(CheckpointError, match=r"'llama\.attention\.head_count_kv' differs between layers"):
        describe(make_gguf(metadata={"llama.attention.head_count_kv": [1, 2]}))
