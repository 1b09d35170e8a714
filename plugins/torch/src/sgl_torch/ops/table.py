"""The op table of one loaded model: every named op bound once, by priority, to an implementation that can serve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sgl_core.api import OpSpec

from . import reference
from .contract import (
    AddRmsNormOp,
    EmbeddingOp,
    GeluMulOp,
    LinearOp,
    OpContext,
    OpUnavailable,
    RmsNormOp,
    RopeOp,
    SiluMulOp,
)

if TYPE_CHECKING:
    from sgl_core.registry import Registries

OPS = ("embedding", "linear", "rms_norm", "add_rms_norm", "rope", "silu_mul", "gelu_mul")
"""Every op name. Attention over pages has a registry of its own (``attention``), sampling too (``samplers``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ops:
    """The bound ops. ``chosen`` maps an op to the entry that serves it, ``passed_over`` an entry to why it does not."""

    embedding: EmbeddingOp
    linear: LinearOp
    rms_norm: RmsNormOp
    add_rms_norm: AddRmsNormOp
    rope: RopeOp
    silu_mul: SiluMulOp
    gelu_mul: GeluMulOp
    chosen: dict[str, str] = field(default_factory=dict)
    passed_over: dict[str, str] = field(default_factory=dict)


def reference_ops(context: OpContext) -> Ops:
    """The torch oracle alone."""
    return Ops(
        embedding=reference.TorchEmbedding(context),
        linear=reference.TorchLinear(context),
        rms_norm=reference.rms_norm,
        add_rms_norm=reference.add_rms_norm,
        rope=reference.TorchRope(context),
        silu_mul=reference.make_silu_mul(context),
        gelu_mul=reference.make_gelu_mul(context),
        chosen=dict.fromkeys(OPS, "torch"),
    )


def candidates(specs: Iterable[OpSpec], op: str, platform: str) -> list[OpSpec]:
    """The implementations of ``op`` that name this platform or none, the highest priority first, then by name."""
    fitting = (spec for spec in specs if spec.op == op and (not spec.platforms or platform in spec.platforms))
    return sorted(fitting, key=lambda spec: (-spec.priority, spec.name))


def bind(registries: Registries, context: OpContext, platform: str) -> Ops:
    """Bind every op. An entry whose factory raises OpUnavailable gives way to the next.

    Any other failure to load an entry is an error: an installed kernel library that is broken must be seen. Raises
    LookupError for an op that nobody serves.
    """
    specs = [spec for spec in registries.ops.specs() if spec.available]
    chosen: dict[str, str] = {}
    passed_over: dict[str, str] = {}
    bound: dict[str, Any] = {}
    for op in OPS:
        for spec in candidates(specs, op, platform):
            try:
                bound[op] = registries.ops.load(spec.name)(context)
            except OpUnavailable as error:
                passed_over[spec.name] = str(error)
                continue
            chosen[op] = spec.name
            break
        else:
            raise LookupError(f"no installed package serves op {op!r} on {platform}; install sgl-torch or sgl-ops")
    return Ops(**bound, chosen=chosen, passed_over=passed_over)
