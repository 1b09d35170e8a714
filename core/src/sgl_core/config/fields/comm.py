"""Collectives and communication kernels."""

from __future__ import annotations

from typing import Literal

from ..declare import Subject, field


class Communication(Subject):
    """Communication."""

    namespace = "exec.comm"
    title = "Communication"

    enable_layerwise_nvtx_marker = field(bool, False, "")
    enable_nccl_nvls = field(bool, False, "")
    enable_symm_mem = field(bool, False, "", resolvable=True)
    disable_custom_all_reduce = field(bool, False, "", resolvable=True)
    enable_mscclpp = field(bool, False, "")
    enable_torch_symm_mem = field(bool, False, "")
    enable_scattered_sconv = field(bool, False, "")
    pre_warm_nccl = field(bool, False, "")
    enable_quant_communications = field(bool | None, False, "")
    enable_flashinfer_allreduce_fusion = field(bool, False, "", replaced_by="flashinfer_allreduce_fusion_backend=auto")
    enforce_disable_flashinfer_allreduce_fusion = field(bool, False, "")
    flashinfer_allreduce_fusion_backend = field(Literal["auto", "trtllm", "mnnvl"] | None, None, "", resolvable=True)
    enable_aiter_allreduce_fusion = field(bool, False, "", resolvable=True)
