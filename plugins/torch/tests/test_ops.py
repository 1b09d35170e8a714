"""The torch ops against their definitions, binding by priority, and the quantization seam of linear layers."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from sgl_core.api import OpSpec
from sgl_torch.context import LayerContext
from sgl_torch.layers import Embedding, Linear, LMHead, QKVLinear, RMSNorm, gated_activation
from sgl_torch.ops import OPS, OpContext, OpUnavailable, bind, reference_ops
from sgl_torch.weights import WeightSlot

CPU = torch.device("cpu")


def op_context(dtype: torch.dtype = torch.float32, threads: int = 1) -> OpContext:
    return OpContext(device=CPU, dtype=dtype, threads=threads)


def layer_context(quant: Any = None) -> LayerContext:
    return LayerContext(ops=reference_ops(op_context()), dtype=torch.float32, device=CPU, context_length=8, quant=quant)


class Blocks:
    """A quantized part as a loader gives it: two bytes a row, each a weight of value / 16."""

    ggml_type = 99

    def __init__(self, rows: int, columns: int) -> None:
        self.shape = (rows, columns)
        self.raw = torch.arange(rows * columns, dtype=torch.uint8).view(rows, columns).numpy()

    def dequantize(self, dtype: torch.dtype) -> torch.Tensor:
        return torch.from_numpy(self.raw).to(dtype) / 16


TARGETS = "sgl_test_op_targets"


def fast(x: torch.Tensor) -> torch.Tensor:
    return x


def cannot(context: OpContext) -> Any:
    raise OpUnavailable("needs a wider vector unit")


class TestReference:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    def test_norms(self, dtype: torch.dtype) -> None:
        ops = reference_ops(op_context(dtype))
        x, residual, weight = (torch.randn(5, 40).to(dtype) for _ in range(3))
        want = torch.nn.functional.rms_norm(x.double(), (40,), weight[0].double(), 1e-5)
        tolerance = 1e-6 if dtype == torch.float32 else 0.04
        assert (ops.rms_norm(x, weight[0], 1e-5) - want).abs().max() < tolerance
        normed, total = ops.add_rms_norm(x, residual, weight[0], 1e-5)
        assert torch.equal(total, x + residual)
        assert torch.equal(normed, ops.rms_norm(total, weight[0], 1e-5))

    def test_gated_activations(self) -> None:
        ops = reference_ops(op_context())
        x = torch.randn(7, 30)
        gate, up = x.double().chunk(2, -1)
        assert torch.allclose(ops.silu_mul(x).double(), gate * gate.sigmoid() * up, atol=1e-6)
        for name, approximate in (("gelu", "none"), ("gelu_pytorch_tanh", "tanh")):
            want = torch.nn.functional.gelu(gate, approximate=approximate) * up
            assert torch.allclose(gated_activation(name, ops)(x).double(), want, atol=1e-6)
        with pytest.raises(ValueError, match="hidden_act 'relu6' is not served"):
            gated_activation("relu6", ops)

    @pytest.mark.parametrize("width", [100, 512, 1000])
    def test_activation_of_a_row_has_the_same_bits_among_many(self, width: int) -> None:
        threads = torch.get_num_threads()
        try:
            torch.set_num_threads(3)
            silu = reference_ops(op_context(threads=3)).silu_mul
            x = torch.randn(401, 2 * width)
            everything = silu(x)
            assert torch.equal(torch.cat([silu(x[i : i + 1]) for i in range(401)]), everything)
        finally:
            torch.set_num_threads(threads)

    def test_linear_packs_dense_and_quantized_parts_together(self) -> None:
        linear = reference_ops(op_context()).linear
        dense, blocks = torch.randn(3, 4), Blocks(2, 4)
        packed = linear.pack([dense, blocks], torch.float32)
        assert torch.equal(linear.unpack(packed), torch.cat((dense, blocks.dequantize(torch.float32))))
        assert torch.equal(linear.pack([dense], torch.float32), dense)
        x, bias = torch.randn(6, 4), torch.randn(5)
        assert torch.allclose(linear(x, packed, bias), x @ linear.unpack(packed).T + bias)


class TestBinding:
    def test_torch_serves_every_op(self, registries: Any) -> None:
        ops = bind(registries, op_context(), "cpu")
        assert set(ops.chosen) == set(OPS)

    def test_priority_platform_and_refusal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from sgl_core.registry import Registries

        registries = Registries.discover()
        for name, priority, platforms in (("mine", 10, ("cpu",)), ("other", 20, ("cuda",)), ("picky", 30, ())):
            target = f"{TARGETS}:{name}"
            spec = OpSpec(name=name, op="silu_mul", target=target, priority=priority, platforms=platforms)
            registries.ops.add(spec)
        targets = types.ModuleType(TARGETS)
        targets.mine = lambda context: fast  # type: ignore[attr-defined]
        targets.picky = cannot  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, TARGETS, targets)
        ops = bind(registries, op_context(), "cpu")
        assert ops.silu_mul is fast
        assert ops.chosen["silu_mul"] == "mine"
        assert ops.passed_over == {"picky": "needs a wider vector unit"}


class Doubling:
    """A quantization method that keeps half of each weight."""

    def __init__(self) -> None:
        self.half = torch.empty(0)

    def slots(self, layer: Linear, part: int) -> Iterator[tuple[str, WeightSlot]]:
        def load(tensor: Any) -> None:
            self.half = tensor / 2

        yield "qweight", WeightSlot(load=load, read=lambda: 2 * self.half, shape=(layer.out_features, 4))

    def apply(self, layer: Linear, x: torch.Tensor) -> torch.Tensor:
        return 2 * (x @ self.half.T)


class DoublingConfig:
    def method_for(self, layer: Linear, prefix: str, context: Any) -> Doubling | None:
        return Doubling() if prefix == "block.proj" else None


class TestLinearLayers:
    def test_quantization_chooses_layer_by_layer(self) -> None:
        context = layer_context(DoublingConfig())
        kept, plain = Linear(4, 3, context, prefix="block.proj"), Linear(4, 3, context, prefix="block.other")
        slots = dict(kept.weight_slots("block.proj"))
        assert list(slots) == ["block.proj.qweight"]
        weight, x = torch.randn(3, 4), torch.randn(2, 4)
        slots["block.proj.qweight"].load(weight)
        assert torch.allclose(kept(x), x @ weight.T)
        assert list(dict(plain.weight_slots("block.other"))) == ["block.other.weight"]

    def test_stacked_parts_load_in_any_order(self) -> None:
        layer = QKVLinear(6, 2, 1, 4, layer_context(), prefix="a.qkv_proj", bias=True)
        slots = dict(layer.weight_slots("a.qkv_proj"))
        tensors = {name: torch.randn(*(slot.shape or ())) for name, slot in slots.items()}
        for name in sorted(slots, reverse=True):
            slots[name].load(tensors[name])
        x = torch.randn(3, 6)
        parts = [x @ tensors[f"a.{p}_proj.weight"].T + tensors[f"a.{p}_proj.bias"] for p in "qkv"]
        assert torch.allclose(layer(x), torch.cat(parts, -1), atol=1e-6)
        assert all(torch.equal(slots[name].read(), tensors[name]) for name in slots)

    def test_parts_of_a_load_that_failed_are_forgotten(self) -> None:
        layer = QKVLinear(6, 2, 1, 4, layer_context(), prefix="a.qkv_proj")
        dict(layer.weight_slots("a.qkv_proj"))["a.v_proj.weight"].load(torch.full((4, 6), 9.0))
        slots = dict(layer.weight_slots("a.qkv_proj"))
        for name in ("a.q_proj.weight", "a.k_proj.weight", "a.v_proj.weight"):
            slots[name].load(torch.ones(*(slots[name].shape or ())))
        assert torch.equal(slots["a.v_proj.weight"].read(), torch.ones(4, 6))

    def test_parts_must_make_the_whole(self) -> None:
        with pytest.raises(ValueError, match=r"b\.x: parts of \(3, 4\) rows do not make 8"):
            Linear(2, 8, layer_context(), prefix="b.x", parts={"p": 3, "q": 4})

    def test_tied_head_follows_the_embedding(self) -> None:
        context = layer_context()
        embedding = Embedding(5, 4, context)
        head = LMHead(5, 4, context, tied=embedding)
        for table in (torch.randn(5, 4), torch.randn(5, 4)):
            embedding.load(table)
            assert torch.equal(embedding(torch.tensor([4, 0])), table[[4, 0]])
            assert torch.allclose(head(table), table @ table.T, atol=1e-6)
        embedding.load(Blocks(5, 4))
        assert torch.equal(head.dense(), embedding.dense())

    def test_norm_layer_without_residual(self) -> None:
        norm = RMSNorm(4, layer_context())
        dict(norm.weight_slots("n"))["n.weight"].load(torch.ones(4))
        x = torch.randn(2, 4)
        normed, residual = norm.add(x, None)
        assert residual is x
        assert torch.equal(normed, norm(x))
