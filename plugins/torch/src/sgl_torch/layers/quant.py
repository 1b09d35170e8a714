"""The quantization seam of linear layers: a method creates, loads and multiplies a layer's weights.

A quantization plugin (registry ``quantization``) gives ``config_from(dict) -> QuantConfig``. Without one, and for GGUF files whose
blocks stay as they are, :class:`PackedMethod` hands the parts to the ``linear`` op, which packs them its own way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ..ops import Ops, WeightPart
from ..weights import WeightSlot

if TYPE_CHECKING:
    from ..context import LayerContext
    from .activation import GatedActivation
    from .linear import Linear


class LinearMethod(Protocol):
    """How one linear layer keeps and multiplies its weights. One object per layer."""

    def slots(self, layer: Linear, part: int) -> Iterator[tuple[str, WeightSlot]]:
        """Create the weights of ``layer.parts[part]``: (suffix such as ``weight`` or ``qweight``, slot) pairs.

        When the last slot of a layer has been loaded, the method packs; loading again (weight update) replaces.
        """
        ...

    def apply(self, layer: Linear, x: torch.Tensor) -> torch.Tensor:
        """``x`` [T, in] to [T, out], bias included.

        A method may also have ``apply_gated(layer, x, activation)``: what ``activation`` makes of that, [T, out / 2].
        """
        ...


class QuantConfig(Protocol):
    """A checkpoint's quantization, parsed."""

    def method_for(self, layer: Linear, prefix: str, context: LayerContext) -> LinearMethod | None:
        """The method of the linear layer at path ``prefix``; None leaves it unquantized."""
        ...


class PackedWeights:
    """What methods share whose weights the bound ``linear`` op packs: one matrix, or several stacked by rows, and a bias."""

    def __init__(self, ops: Ops, dtype: torch.dtype) -> None:
        self._linear = ops.linear
        self._gated = getattr(ops.linear, "gated", None)
        self._dtype = dtype
        self._biases: dict[int, torch.Tensor] = {}
        self.packed: Any = None
        self.bias: torch.Tensor | None = None

    def apply(self, layer: Linear, x: torch.Tensor) -> torch.Tensor:
        return self._linear(x, self.packed, self.bias)

    def apply_gated(self, layer: Linear, x: torch.Tensor, activation: GatedActivation) -> torch.Tensor:
        """``activation(apply(layer, x))``, at once where the linear op does both."""
        if self._gated is not None:
            out: torch.Tensor | None = self._gated(x, self.packed, self.bias, activation.op, activation.tanh)
            if out is not None:
                return out
        return activation(self.apply(layer, x))

    def _dense(self, layer: Linear, tensor: WeightPart) -> torch.Tensor:
        dense = tensor if isinstance(tensor, torch.Tensor) else tensor.dequantize(self._dtype)
        return dense.to(layer.device, self._dtype)

    def _load_bias(self, layer: Linear, part: int, tensor: WeightPart) -> None:
        self._biases[part] = self._dense(layer, tensor)
        if len(self._biases) == len(layer.part_sizes):
            self.bias = torch.cat([self._biases[i] for i in range(len(layer.part_sizes))])
            self._biases.clear()

    def _require_bias(self) -> torch.Tensor:
        assert self.bias is not None, "the bias is read before it is loaded"
        return self.bias


class PackedMethod(PackedWeights):
    """Weights in whatever form the bound ``linear`` op packs them; parts may be dense tensors or quantized blocks."""

    def __init__(self, ops: Ops, dtype: torch.dtype) -> None:
        super().__init__(ops, dtype)
        self._pending: dict[int, WeightPart] = {}

    def slots(self, layer: Linear, part: int) -> Iterator[tuple[str, WeightSlot]]:
        self._pending.pop(part, None)  # what a load that failed half-way left behind
        self._biases.pop(part, None)
        start = sum(layer.part_sizes[:part])
        rows = slice(start, start + layer.part_sizes[part])
        yield (
            "weight",
            WeightSlot(
                load=lambda tensor: self._load(layer, part, tensor),
                read=lambda: self._linear.unpack(self.packed)[rows],
                shape=(layer.part_sizes[part], layer.in_features),
            ),
        )
        if layer.has_bias:
            yield (
                "bias",
                WeightSlot(
                    load=lambda tensor: self._load_bias(layer, part, tensor),
                    read=lambda: self._require_bias()[rows],
                    shape=(layer.part_sizes[part],),
                ),
            )

    def _load(self, layer: Linear, part: int, tensor: WeightPart) -> None:
        self._pending[part] = tensor
        if len(self._pending) == len(layer.part_sizes):
            self.packed = self._linear.pack([self._pending[i] for i in range(len(layer.part_sizes))], self._dtype)
            self._pending.clear()
