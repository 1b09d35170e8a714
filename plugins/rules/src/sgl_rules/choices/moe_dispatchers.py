"""Dispatchers that carry tokens between expert-parallel ranks; ``spans_group``: over the whole tensor-parallel group."""

from __future__ import annotations

from sgl_core.api.specs import Spec

from .absent import NOT_INSTALLED

DEEPEP = Spec(
    name="deepep",
    summary="DeepEP",
    flags=frozenset({"spans_group"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
DEEPEP_V2 = Spec(
    name="deepep_v2",
    summary="DeepEP with elastic buffers",
    flags=frozenset({"spans_group"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
MOONCAKE = Spec(
    name="mooncake",
    summary="Mooncake, elastic groups",
    flags=frozenset({"spans_group"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
NIXL = Spec(
    name="nixl",
    summary="NIXL, elastic groups",
    flags=frozenset({"spans_group"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
MORI = Spec(
    name="mori",
    summary="MoRI for AMD GPUs",
    flags=frozenset({"spans_group"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
ASCEND_FUSEEP = Spec(
    name="ascend_fuseep",
    summary="fused dispatch for Ascend NPUs",
    flags=frozenset({"spans_group"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
FLASHINFER = Spec(
    name="flashinfer",
    summary="FlashInfer all-to-all",
    flags=frozenset({"spans_group"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
MEGAMOE = Spec(
    name="megamoe",
    summary="dispatch and product in one kernel",
    flags=frozenset({"spans_group"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
PPLX = Spec(
    name="pplx",
    summary="Perplexity kernels",
    flags=frozenset({"spans_group"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
ASCEND_TP = Spec(
    name="ascend_tp",
    summary="tensor-parallel experts on Ascend NPUs",
    available=False,
    unavailable_because=NOT_INSTALLED,
)
