"""Collectives and communication kernels."""

from __future__ import annotations

from typing import Literal

from ..declare import Subject, field


class Communication(Subject):
    """Communication."""

    namespace = "exec.comm"
    title = "Communication"

    enable_layerwise_nvtx_marker = field(bool, False, "Mark each layer for Nsight profiles.")
    enable_nccl_nvls = field(bool, False, "Use NVLink SHARP in NCCL for prefill-heavy loads.")
    enable_symm_mem = field(bool, False, "Use NCCL symmetric memory for faster collectives.", resolvable=True)
    disable_custom_all_reduce = field(bool, False, "Use only NCCL for all-reduce.", resolvable=True)
    enable_mscclpp = field(bool, False, "Use MSCCL++ for small all-reduces.")
    enable_torch_symm_mem = field(bool, False, "Use torch symmetric memory for all-reduce (SM90 and newer).")
    enable_scattered_sconv = field(bool, False, "Inkling models: scatter the output convolution over ranks.")
    pre_warm_nccl = field(bool, False, "Set up communicators at start, so that the first requests do not wait for it.")
    enable_quant_communications = field(bool | None, False, "Send tensor-parallel sums as 8-bit integers.")
    enable_flashinfer_allreduce_fusion = field(
        bool,
        False,
        "Old way to set --flashinfer-allreduce-fusion-backend=auto.",
        replaced_by="flashinfer_allreduce_fusion_backend=auto",
    )
    enforce_disable_flashinfer_allreduce_fusion = field(
        bool, False, "Never fuse all-reduce with the norm, even where it is the default."
    )
    flashinfer_allreduce_fusion_backend = field(
        Literal["auto", "trtllm", "mnnvl"] | None,
        None,
        "Fuse all-reduce with residual and norm through FlashInfer, by this backend.",
        resolvable=True,
    )
    enable_aiter_allreduce_fusion = field(
        bool, False, "Fuse all-reduce with residual and norm through AITER (ROCm).", resolvable=True
    )
