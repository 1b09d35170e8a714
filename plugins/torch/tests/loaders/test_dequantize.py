"""Every block type against the gguf package's reference, bit for bit, on random blocks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_core.api.checkpoint import GGML_TYPES, GgmlType
from sgl_torch.loaders import QuantizedTensor
from sgl_torch.loaders.dequantize import _BLOCKS, _THROUGH_GGUF, can_dequantize, dequantize_rows

BY_NAME = {kind.name: kind for kind in GGML_TYPES.values()}
READABLE = sorted([*_BLOCKS, *_THROUGH_GGUF])


def random_blocks(kind: GgmlType, count: int, seed: int) -> np.ndarray:
    """Random bytes: every bit pattern of the packed numbers; scales may be any float16, including what is not finite."""
    return np.random.default_rng(seed).integers(0, 256, (count, kind.block_bytes), dtype=np.uint8)


@pytest.mark.parametrize("name", READABLE)
@given(seed=st.integers(0, 1 << 30))
@settings(deadline=None, max_examples=8)
def test_equal_to_the_reference_bit_for_bit(name: str, seed: int) -> None:
    kind = BY_NAME[name]
    blocks = random_blocks(kind, 16, seed)
    with np.errstate(all="ignore"):
        expected = dequantize(blocks, GGMLQuantizationType[name])
    ours = dequantize_rows(blocks, kind, torch.float32).numpy()
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_quantized_values_come_back(name: str) -> None:
    values = np.random.default_rng(0).normal(size=(6, 64)).astype(np.float32)
    raw = quantize(values, GGMLQuantizationType[name])
    tensor = QuantizedTensor(raw, BY_NAME[name].id, (6, 64))
    dense = tensor.dequantize()
    assert dense.shape == (6, 64)
    assert float((dense - torch.from_numpy(values)).abs().max()) < (0.02 if name == "Q8_0" else 0.3)
    half = tensor.dequantize(torch.bfloat16)
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, dense.to(torch.bfloat16))
    assert tensor.nbytes == raw.nbytes


def test_large_tensors_go_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = BY_NAME["Q6_K"]
    blocks = random_blocks(kind, 64, 3).reshape(16, -1)
    whole = dequantize_rows(blocks, kind, torch.float32)
    monkeypatch.setattr("sgl_torch.loaders.dequantize._CHUNK_ELEMENTS", 3 * 4 * 256)
    assert whole.shape == (16, 1024)
    torch.testing.assert_close(dequantize_rows(blocks, kind, torch.float32), whole, rtol=0, atol=0, equal_nan=True)


def test_rows_are_exact() -> None:
    kind = BY_NAME["Q4_K"]
    tensor = QuantizedTensor(random_blocks(kind, 8, 1).reshape(4, -1), kind.id, (4, 512))
    order = np.array([2, 0, 3])
    torch.testing.assert_close(
        tensor.rows(order).dequantize(), tensor.dequantize()[order], rtol=0, atol=0, equal_nan=True
    )
    assert tensor.rows(order).shape == (3, 512)
    assert tensor.rows(order).raw.flags.c_contiguous


def test_experts_keep_their_axis() -> None:
    kind = BY_NAME["Q8_0"]
    tensor = QuantizedTensor(random_blocks(kind, 6, 1), kind.id, (2, 3, 32))
    assert tensor.dequantize().shape == (2, 3, 32)


def test_types_without_a_rule() -> None:
    assert not can_dequantize(BY_NAME["Q8_K"])
    with pytest.raises(ValueError, match=r"Q8_K \(id 15\)"):
        dequantize_rows(np.zeros((1, 292), np.uint8), BY_NAME["Q8_K"], torch.float32)
