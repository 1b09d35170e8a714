"""The kernels' ops against the torch ones: every op, dense and quantized matrices, tied tables, and contexts they cannot serve."""

from __future__ import annotations

from typing import Any

import gguf
import numpy as np
import pytest
import torch

from sgl_core.registry import Registries
from sgl_cpu.kernels import matrices
from sgl_cpu.kernels.session import NAME, Kernels
from sgl_torch.context import LayerContext
from sgl_torch.layers import Embedding, GateUpLinear, LMHead, gated_activation
from sgl_torch.loaders.quantized import QuantizedTensor
from sgl_torch.ops import OPS, OpContext, Ops, bind, reference_ops

CPU = torch.device("cpu")


def context(exact: bool = True) -> OpContext:
    return OpContext(device=CPU, dtype=torch.float32, shared={NAME: Kernels(threads=1, exact=exact)})


@pytest.fixture
def kernel(registries: Registries) -> Ops:
    return bind(registries, context(), "cpu")


@pytest.fixture
def torch_ops() -> Ops:
    return reference_ops(context())


def blocks(kind: str, rows: int, columns: int) -> QuantizedTensor:
    dense = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
    number = gguf.GGMLQuantizationType[kind]
    return QuantizedTensor(gguf.quants.quantize(dense, number), int(number), (rows, columns))


def test_every_op_is_a_kernel(kernel: Ops) -> None:
    assert kernel.chosen == {op: f"sgl_ops_{op}" for op in OPS}


@pytest.mark.parametrize("act", ["silu", "gelu", "gelu_new"])
@pytest.mark.parametrize("bias", [False, True])
def test_gate_up_and_activation_at_once(registries: Registries, torch_ops: Ops, act: str, bias: bool) -> None:
    """The fused op, the kernels' own two ops, and a foreign activation behind the kernels' product agree."""
    torch.manual_seed(0)
    parts = [torch.randn(48, 64) / 8 for _ in range(2)]
    offsets = torch.randn(96)
    x, found = torch.randn(9, 64), []
    for foreign in (None, torch_ops):
        ops = bind(registries, context(), "cpu")
        layer = GateUpLinear(
            64,
            48,
            LayerContext(ops=ops, device=CPU, dtype=torch.float32, context_length=8),
            prefix="mlp.gate_up_proj",
            act=act,
            bias=bias,
        )
        for path, slot in layer.weight_slots("mlp.gate_up_proj"):
            part = "up_proj" in path
            slot.load(offsets[48 * part : 48 * part + 48] if path.endswith("bias") else parts[part])
        if foreign:
            layer.activation = gated_activation(act, foreign)
        found.append(layer(x))
    both = x @ torch.cat(parts).T + (offsets if bias else 0)
    want = gated_activation(act, torch_ops)(both)
    assert torch.allclose(found[0], want, atol=1e-5)
    assert torch.allclose(found[1], want, atol=1e-5)


@pytest.mark.parametrize("rows", [0, 1, 7, 40])
def test_row_ops(kernel: Ops, torch_ops: Ops, rows: int) -> None:
    torch.manual_seed(rows)
    x, residual, weight = torch.randn(rows, 96), torch.randn(rows, 96), torch.randn(96)
    for got, want in (
        (kernel.rms_norm(x, weight, 1e-5), torch_ops.rms_norm(x, weight, 1e-5)),
        (kernel.silu_mul(x), torch_ops.silu_mul(x)),
        (kernel.gelu_mul(x, True), torch_ops.gelu_mul(x, True)),
        (kernel.gelu_mul(x, False), torch_ops.gelu_mul(x, False)),
        *zip(
            kernel.add_rms_norm(x, residual.clone(), weight, 1e-5),
            torch_ops.add_rms_norm(x, residual, weight, 1e-5),
            strict=True,
        ),
    ):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_norm_of_heads_in_strided_rows(kernel: Ops, torch_ops: Ops) -> None:
    x, weight = torch.randn(5, 200)[:, :96], torch.randn(96)
    torch.testing.assert_close(kernel.rms_norm(x, weight, 1e-6), torch_ops.rms_norm(x, weight, 1e-6))


@pytest.mark.parametrize(("interleaved", "rotary"), [(False, 32), (True, 32), (False, 16)])
def test_rope(kernel: Ops, torch_ops: Ops, interleaved: bool, rotary: int) -> None:
    heads = torch.randn(6, 9, 32)
    x, table, positions = heads[:, :5], torch.randn(50, rotary), torch.tensor([0, 3, 49, 7, 7, 20])
    before = x.clone()
    torch.testing.assert_close(
        kernel.rope(x, table, positions, interleaved), torch_ops.rope(x, table, positions, interleaved)
    )
    assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dense_matrices_in_their_own_dtype(kernel: Ops, torch_ops: Ops, dtype: torch.dtype) -> None:
    parts = [torch.randn(n, 64).to(dtype) for n in (33, 5, 70)]
    x, bias = torch.randn(9, 64), torch.randn(108)
    packed, plain = kernel.linear.pack(parts, torch.float32), torch_ops.linear.pack(parts, torch.float32)
    torch.testing.assert_close(kernel.linear(x, packed, bias), torch_ops.linear(x, plain, bias), rtol=1e-4, atol=1e-4)
    assert torch.equal(kernel.linear.unpack(packed), plain)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_blocks_stay_blocks(kernel: Ops, torch_ops: Ops, kind: str) -> None:
    parts = [blocks(kind, rows, 96) for rows in (24, 10)]
    x = torch.randn(3, 200)[:, :96]
    packed, plain = kernel.linear.pack(parts, torch.float32), torch_ops.linear.pack(parts, torch.float32)
    torch.testing.assert_close(kernel.linear(x, packed, None), torch_ops.linear(x, plain, None), rtol=1e-4, atol=1e-4)
    assert sum(packed.storages().values()) < plain.nbytes / 2
    assert torch.equal(kernel.linear.unpack(packed), plain)


def test_8_bit_activations_are_near(torch_ops: Ops) -> None:
    linear = matrices.KernelLinear(context(exact=False))
    part, x = blocks("Q4_1", 64, 256), torch.randn(5, 256)
    got, want = linear(x, linear.pack([part], torch.float32), None), torch_ops.linear(x, part.dequantize(), None)
    assert not torch.equal(got, want)
    assert (got - want).norm() < 0.01 * want.norm()


def test_more_matrices_than_one_call_takes(kernel: Ops) -> None:
    parts = [torch.randn(3, 32) for _ in range(11)]
    x = torch.randn(2, 32)
    got = kernel.linear(x, kernel.linear.pack(parts, torch.float32), None)
    torch.testing.assert_close(got, x @ torch.cat(parts).T)


def test_a_type_without_a_kernel_is_multiplied_in_float32(kernel: Ops, caplog: pytest.LogCaptureFixture) -> None:
    stand_in = Unknown(torch.randn(4, 32))
    with caplog.at_level("INFO", "sgl_cpu"):
        packed = kernel.linear.pack([stand_in], torch.float32)
    assert "no kernel multiplies IQ4_XS" in caplog.text
    assert torch.equal(kernel.linear.unpack(packed), stand_in.dense)


class Unknown:
    """Blocks of a type that no kernel reads."""

    ggml_type = int(gguf.GGMLQuantizationType.IQ4_XS)

    def __init__(self, dense: torch.Tensor) -> None:
        self.dense, self.shape, self.raw = dense, tuple(dense.shape), np.zeros((4, 8), np.uint8)

    def dequantize(self, dtype: torch.dtype) -> torch.Tensor:
        return self.dense.to(dtype)


@pytest.mark.parametrize("part", [torch.randn(20, 32).bfloat16(), blocks("Q8_0", 20, 32)])
def test_a_tied_head_is_packed_once(kernel: Ops, part: Any) -> None:
    layer = LayerContext(ops=kernel, dtype=torch.float32, device=CPU, context_length=8)
    table = Embedding(20, 32, layer)
    head = LMHead(20, 32, layer, tied=table)
    table.load(part)
    assert head._packed.storages() == table._table.storages()
    ids = torch.tensor([3, 19, 0])
    dense = part.dequantize() if isinstance(part, QuantizedTensor) else part.float()
    assert torch.equal(table(ids), dense[ids])
    torch.testing.assert_close(head(table(ids)), dense[ids] @ dense.T, rtol=1e-4, atol=1e-4)


def test_other_weights_in_the_same_memory_are_packed_anew(kernel: Ops) -> None:
    for number in range(3):
        part = torch.full((4, 32), float(number))
        assert torch.equal(kernel.linear.unpack(kernel.linear.pack([part], torch.float32)), part)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_compute_dtypes_fall_back_with_the_reason(registries: Registries, dtype: torch.dtype) -> None:
    ops = bind(registries, OpContext(device=CPU, dtype=dtype), "cpu")
    assert set(ops.chosen.values()) == {f"torch_{op}" for op in OPS}
    assert all("compute in float32" in why for why in ops.passed_over.values())
