"""Kernels of linear attention that are known by name."""

from __future__ import annotations

from sgl_core.api.specs import Spec

from .absent import NOT_INSTALLED

TRITON = Spec(name="triton", summary="portable kernels", available=False, unavailable_because=NOT_INSTALLED)
CUTEDSL = Spec(name="cutedsl", summary="CuTe DSL kernels", available=False, unavailable_because=NOT_INSTALLED)
FLASHINFER = Spec(name="flashinfer", summary="FlashInfer kernels", available=False, unavailable_because=NOT_INSTALLED)
FLASHKDA = Spec(name="flashkda", summary="FlashKDA, prefill only", available=False, unavailable_because=NOT_INSTALLED)
NVIDIA_KDA = Spec(
    name="nvidia_kda", summary="delta attention of NVIDIA", available=False, unavailable_because=NOT_INSTALLED
)
PTX_KDA = Spec(name="ptx_kda", summary="delta attention in PTX", available=False, unavailable_because=NOT_INSTALLED)
HELION = Spec(name="helion", summary="kernels written in Helion", available=False, unavailable_because=NOT_INSTALLED)
INTEL_XPU = Spec(name="intel_xpu", summary="kernels for Intel GPUs", available=False, unavailable_because=NOT_INSTALLED)
