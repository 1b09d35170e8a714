"""Mixture-of-experts runners that are known by name; those that state weight formats multiply no others."""

from __future__ import annotations

from sgl_core.api.specs import MoeRunnerSpec

from .absent import NOT_INSTALLED

DEEP_GEMM = MoeRunnerSpec(
    name="deep_gemm",
    summary="DeepGEMM, FP8 with scales per block",
    platforms=("cuda", "musa"),
    quant_formats=frozenset(),
    flags=frozenset({"mxfp8"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
TRITON = MoeRunnerSpec(
    name="triton",
    summary="portable kernels",
    platforms=("cuda", "rocm", "xpu", "musa"),
    quant_formats=frozenset(),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
TRITON_KERNEL = MoeRunnerSpec(
    name="triton_kernel",
    summary="packed MXFP4 kernels of triton_kernels",
    platforms=("cuda", "rocm"),
    quant_formats=frozenset(),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
FLASHINFER_TRTLLM = MoeRunnerSpec(
    name="flashinfer_trtllm",
    summary="TensorRT-LLM kernels through FlashInfer",
    platforms=("cuda",),
    quant_formats=frozenset(
        {"modelopt_fp4", "nvfp4_online", "fp8", "mxfp8", "modelopt_fp8", "modelopt_mixed", "compressed-tensors", "none"}
    ),
    arch=(100, 109),
    flags=frozenset({"mxfp8"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
EXPERIMENTAL_SGL_TRTLLM = MoeRunnerSpec(
    name="experimental_sgl_trtllm",
    summary="TensorRT-LLM kernels, with LoRA",
    platforms=("cuda",),
    quant_formats=frozenset(
        {"modelopt_fp4", "nvfp4_online", "fp8", "mxfp8", "modelopt_fp8", "modelopt_mixed", "compressed-tensors", "none"}
    ),
    arch=(100, 109),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
FLASHINFER_TRTLLM_ROUTED = MoeRunnerSpec(
    name="flashinfer_trtllm_routed",
    summary="TensorRT-LLM kernels, routing done outside",
    platforms=("cuda",),
    quant_formats=frozenset({"fp8", "mxfp8", "modelopt_fp4", "modelopt_mixed", "nvfp4_online", "none"}),
    arch=(100, 109),
    flags=frozenset({"mxfp8"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
FLASHINFER_CUTLASS = MoeRunnerSpec(
    name="flashinfer_cutlass",
    summary="CUTLASS kernels through FlashInfer",
    platforms=("cuda",),
    quant_formats=frozenset({"modelopt_fp4", "modelopt_fp8", "modelopt_mixed", "none"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
FLASHINFER_MXFP4 = MoeRunnerSpec(
    name="flashinfer_mxfp4",
    summary="MXFP4 kernels through FlashInfer",
    platforms=("cuda",),
    quant_formats=frozenset(),
    arch=(90, 129),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
FLASHINFER_CUTEDSL = MoeRunnerSpec(
    name="flashinfer_cutedsl",
    summary="CuTe DSL kernels through FlashInfer",
    platforms=("cuda",),
    quant_formats=frozenset({"modelopt_fp4", "modelopt_mixed", "nvfp4_online"}),
    arch=(100, 109),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
CUTLASS = MoeRunnerSpec(
    name="cutlass",
    summary="CUTLASS grouped products",
    platforms=("cuda",),
    quant_formats=frozenset(),
    flags=frozenset({"mxfp8"}),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
AITER = MoeRunnerSpec(
    name="aiter",
    summary="kernels for AMD GPUs",
    platforms=("rocm",),
    quant_formats=frozenset(),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
MARLIN = MoeRunnerSpec(
    name="marlin",
    summary="four-bit weights unpacked on the way",
    platforms=("cuda",),
    quant_formats=frozenset(),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
HUMMING = MoeRunnerSpec(
    name="humming",
    summary="mixed-width kernels",
    platforms=("cuda",),
    quant_formats=frozenset(),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
EXPERIMENTAL_SGL_MARLIN = MoeRunnerSpec(
    name="experimental_sgl_marlin",
    summary="Marlin with LoRA",
    platforms=("cuda",),
    quant_formats=frozenset(),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
HPC_OPS = MoeRunnerSpec(
    name="hpc_ops",
    summary="HPC-Ops, FP8",
    platforms=("cuda",),
    quant_formats=frozenset(),
    arch=(90, 99),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
MEGAMOE = MoeRunnerSpec(
    name="megamoe",
    summary="dispatch and product in one kernel",
    platforms=("cuda",),
    quant_formats=frozenset(),
    arch=(100, 109),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
INTEL_XPU = MoeRunnerSpec(
    name="intel_xpu",
    summary="kernels for Intel GPUs",
    platforms=("xpu",),
    quant_formats=frozenset(),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
