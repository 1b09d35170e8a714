"""What the formats share: a layer's checkpoint tensors are collected part by part, turned into codes and scales, and packed once."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch

from sgl_torch.layers.quant import PackedWeights
from sgl_torch.ops import WeightPart
from sgl_torch.weights import WeightError, WeightSlot

if TYPE_CHECKING:
    from sgl_torch.context import LayerContext
    from sgl_torch.layers.linear import Linear

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Expected:
    """A checkpoint tensor of one matrix. ``shape`` None: its reader checks it. An ``ignored`` one is skipped where it comes."""

    shape: tuple[int, ...] | None = None
    ignored: bool = False


IGNORED = Expected(ignored=True)


class Format(ABC):
    """How one matrix [rows, columns] lies in a checkpoint."""

    @abstractmethod
    def tensors(self, rows: int, columns: int) -> dict[str, Expected]:
        """Its tensors by suffix (``qweight``). Raises WeightError where the format cannot hold such a matrix."""

    @abstractmethod
    def read(self, found: Tensors, rows: int, columns: int) -> WeightPart:
        """The matrix as the linear op takes it."""


class QuantizedMethod(PackedWeights):
    """See :class:`sgl_torch.layers.quant.LinearMethod`: the weights of one layer in one format."""

    def __init__(self, made: Format, context: LayerContext, prefix: str) -> None:
        super().__init__(context.ops, context.dtype)
        self._format = made
        self._prefix = prefix
        self._found: dict[int, dict[str, torch.Tensor]] = {}
        self._parts: dict[int, WeightPart] = {}

    def slots(self, layer: Linear, part: int) -> Iterator[tuple[str, WeightSlot]]:
        for kept in (self._found, self._parts, self._biases):
            kept.pop(part, None)  # what a load that failed half-way left behind
        rows, columns = layer.part_sizes[part], layer.in_features
        start = sum(layer.part_sizes[:part])
        try:
            wanted = self._format.tensors(rows, columns)
        except WeightError as error:
            raise WeightError(f"{self._prefix}: {error}") from None
        needed = sum(not expected.ignored for expected in wanted.values())
        for suffix, expected in wanted.items():
            yield (
                suffix,
                WeightSlot(
                    load=partial(self._take, layer, part, suffix, needed),
                    read=lambda: self._linear.unpack(self.packed)[start : start + rows],
                    shape=expected.shape,
                    ignored=expected.ignored,
                ),
            )
        yield (
            "bias",
            WeightSlot(
                load=partial(self._take_bias, layer, part),
                read=lambda: self._require_bias()[start : start + rows],
                shape=(rows,),
                optional=not layer.has_bias,
            ),
        )

    def _take(self, layer: Linear, part: int, suffix: str, needed: int, tensor: WeightPart) -> None:
        if not isinstance(tensor, torch.Tensor):
            raise WeightError(f"{self._prefix}.{suffix} lies in GGUF blocks, which this quantization does not read")
        found = self._found.setdefault(part, {})
        found[suffix] = tensor
        if len(found) < needed:
            return
        try:
            self._parts[part] = self._format.read(self._found.pop(part), layer.part_sizes[part], layer.in_features)
        except WeightError as error:
            raise WeightError(f"{self._prefix}: {error}") from None
        if len(self._parts) == len(layer.part_sizes):
            self.packed = self._linear.pack([self._parts[i] for i in range(len(layer.part_sizes))], self._dtype)
            self._parts.clear()

    def _take_bias(self, layer: Linear, part: int, tensor: WeightPart) -> None:
        if layer.has_bias:
            self._load_bias(layer, part, tensor)
        elif self._dense(layer, tensor).any():  # quantizers write zeros for layers without one
            raise WeightError(f"{self._prefix}.bias is not zero, but the configuration says that there is none")


@dataclass(frozen=True, slots=True)
class Config:
    """See :class:`sgl_torch.layers.quant.QuantConfig`: one format for every linear layer that is not left out.

    ``left_out`` are module paths, parts of them, or patterns after ``re:``.
    """

    made: Format
    left_out: tuple[str, ...] = ("lm_head",)

    def method_for(self, layer: Linear, prefix: str, context: LayerContext) -> QuantizedMethod | None:
        parent = prefix.rpartition(".")[0]
        paths = [f"{parent}.{name}" for name in layer.part_names] or [prefix]
        plain = [leaves_out(self.left_out, path) for path in (*paths, prefix)]
        if all(plain[:-1]) or plain[-1]:
            return None
        if any(plain[:-1]):
            raise WeightError(
                f"{prefix}: some of {', '.join(paths)} are quantized and some not, which is not supported"
            )
        return QuantizedMethod(self.made, context, prefix)


def leaves_out(names: Sequence[str], path: str) -> bool:
    """Whether a list such as ``modules_to_not_convert`` names this module, one around it, or its kind."""
    for name in names:
        if name.startswith("re:"):
            if re.match(name[3:], path):
                return True
        elif path == name or path.startswith(name + ".") or path.endswith("." + name) or f".{name}." in path:
            return True
    return False
