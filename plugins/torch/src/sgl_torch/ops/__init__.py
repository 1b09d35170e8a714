"""Named ops: what layers call, bound once at load to the best implementation for the device."""

from .contract import EmbeddingOp, LinearOp, OpContext, OpUnavailable, QuantizedPart, WeightPart
from .scaled import ScaledTensor
from .table import OPS, Ops, bind, reference_ops

__all__ = [
    "OPS",
    "EmbeddingOp",
    "LinearOp",
    "OpContext",
    "OpUnavailable",
    "Ops",
    "QuantizedPart",
    "ScaledTensor",
    "WeightPart",
    "bind",
    "reference_ops",
]
