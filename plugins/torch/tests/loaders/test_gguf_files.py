"""GGUF weights: names, dtypes, the order of q and k rows, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize

from sgl_core.api.checkpoint import describe
from sgl_torch.loaders import LoadError, QuantizedTensor, iterate
from sgl_torch.loaders.gguf_files import huggingface_name, rotary_order

WriteGguf = Callable[..., Path]


def permuted(weights: np.ndarray, heads: int) -> np.ndarray:
    """What the converter does to llama's q and k: pairs of rows half a head apart become neighbours."""
    out = np.empty_like(weights)
    dim = len(weights) // heads
    for head in range(heads):
        for i in range(dim // 2):
            out[head * dim + 2 * i] = weights[head * dim + i]
            out[head * dim + 2 * i + 1] = weights[head * dim + dim // 2 + i]
    return out


@pytest.mark.parametrize(("rows", "heads"), [(32, 4), (16, 2), (64, 1), (8, 4)])
def test_rotary_order_undoes_the_converter(rows: int, heads: int) -> None:
    original = np.arange(rows)
    np.testing.assert_array_equal(permuted(original, heads)[rotary_order(rows, heads)], original)


@pytest.mark.parametrize(
    ("gguf", "name"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("output.weight", "lm_head.weight"),
        ("blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"),
        ("blk.11.attn_q.bias", "model.layers.11.self_attn.q_proj.bias"),
        ("blk.3.attn_k_norm.weight", "model.layers.3.self_attn.k_norm.weight"),
        ("blk.3.attn_output.weight", "model.layers.3.self_attn.o_proj.weight"),
        ("blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight"),
        ("blk.3.ffn_down.weight", "model.layers.3.mlp.down_proj.weight"),
        ("rope_freqs.weight", None),
        ("blk.3.attn_rot_embd.weight", None),
        ("blk.3.unheard_of.weight", "blk.3.unheard_of.weight"),
    ],
)
def test_names(gguf: str, name: str | None) -> None:
    assert huggingface_name(gguf) == name


def test_names_agree_with_the_gguf_package() -> None:
    from gguf import MODEL_ARCH, get_tensor_name_map

    names = get_tensor_name_map(MODEL_ARCH.QWEN3, 2)
    for part in (
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "self_attn.o_proj",
        "self_attn.q_norm",
        "self_attn.k_norm",
        "mlp.gate_proj",
        "mlp.up_proj",
        "mlp.down_proj",
        "input_layernorm",
        "post_attention_layernorm",
    ):
        original = f"model.layers.1.{part}.weight"
        gguf = names.get_name(original, try_suffixes=(".weight",))
        assert gguf is not None
        assert huggingface_name(gguf) == original


def test_dense_and_quantized_tensors(write_gguf: WriteGguf) -> None:
    rng = np.random.default_rng(0)
    q, k, v, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((32, 32), (16, 32), (16, 32), (32,)))
    bf16 = quantize(v, GGMLQuantizationType.BF16)
    packed = quantize(permuted(q, 4), GGMLQuantizationType.Q8_0)
    path = write_gguf(
        {
            "blk.0.attn_q.weight": (packed, "Q8_0"),
            "blk.0.attn_q.bias": permuted(bias, 4),
            "blk.0.attn_k.weight": permuted(k, 2).astype(np.float16),
            "blk.0.attn_v.weight": (bf16, "BF16"),
            "rope_freqs.weight": np.ones(4, np.float32),
        }
    )
    calls: list[tuple[str, int, int]] = []
    files = describe(path)
    found = dict(iterate(files, progress=lambda *call: calls.append(call)))
    prefix = "model.layers.0.self_attn"
    assert set(found) == {
        "model.embed_tokens.weight",
        *(f"{prefix}.{part}" for part in ("q_proj.weight", "q_proj.bias", "k_proj.weight", "v_proj.weight")),
    }
    quantized = found[f"{prefix}.q_proj.weight"]
    assert isinstance(quantized, QuantizedTensor)
    assert (quantized.type.name, quantized.shape, quantized.raw.shape) == ("Q8_0", (32, 32), (32, 34))
    expected = dequantize(quantize(q, GGMLQuantizationType.Q8_0), GGMLQuantizationType.Q8_0)
    np.testing.assert_array_equal(quantized.dequantize().numpy(), expected)
    dense = {name: tensor for name, tensor in found.items() if isinstance(tensor, torch.Tensor)}
    np.testing.assert_array_equal(dense[f"{prefix}.q_proj.bias"].numpy(), bias)
    np.testing.assert_array_equal(dense[f"{prefix}.k_proj.weight"].numpy(), k.astype(np.float16))
    assert dense[f"{prefix}.v_proj.weight"].dtype == torch.bfloat16
    assert torch.equal(dense[f"{prefix}.v_proj.weight"], torch.from_numpy(v).to(torch.bfloat16))
    assert calls[-1] == ("loading weights", files.weight_bytes, files.weight_bytes)


def test_other_architectures_keep_their_rows(write_gguf: WriteGguf) -> None:
    q = np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32)
    found = dict(iterate(describe(write_gguf({"blk.0.attn_q.weight": q}, arch="qwen2"))))
    tensor = found["model.layers.0.self_attn.q_proj.weight"]
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor.numpy(), q)


def test_weights_are_views_and_writing_leaves_the_file_alone(write_gguf: WriteGguf) -> None:
    path = write_gguf({"blk.0.attn_norm.weight": np.ones(32, np.float32)})
    before = path.read_bytes()
    for _, tensor in iterate(describe(path)):
        assert isinstance(tensor, torch.Tensor)
        tensor.fill_(7)
    assert path.read_bytes() == before


def test_type_that_cannot_be_read_names_file_tensor_and_id(write_gguf: WriteGguf) -> None:
    path = write_gguf({"blk.0.ffn_up.weight": (np.zeros((1, 292), np.uint8), "Q8_K")})
    with pytest.raises(
        LoadError, match=r"tiny\.gguf: tensor 'blk\.0\.ffn_up\.weight' has the ggml type Q8_K \(id 15\)"
    ):
        list(iterate(describe(path)))


def test_shards(write_gguf: WriteGguf) -> None:
    write_gguf({"output_norm.weight": np.ones(32, np.float32)}, name="m-00001-of-00002.gguf")
    second = write_gguf({"output_norm.weight": np.ones(32, np.float32)}, name="m-00002-of-00002.gguf")
    with pytest.raises(LoadError, match=r"m-00002-of-00002\.gguf: tensor 'token_embd\.weight' is also in .*m-00001"):
        list(iterate(describe(second)))
