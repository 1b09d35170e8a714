"""Matrix-product, sampling and vision-attention backends that are known by name."""

from __future__ import annotations

from sgl_core.api.specs import Spec

from .absent import NOT_INSTALLED


def _known(name: str, summary: str, *platforms: str) -> Spec:
    return Spec(name=name, summary=summary, platforms=platforms, available=False, unavailable_because=NOT_INSTALLED)


FP8_DEEP_GEMM = _known("deep_gemm", "DeepGEMM", "cuda", "musa")
FP8_FLASHINFER_TRTLLM = _known("flashinfer_trtllm", "TensorRT-LLM kernels through FlashInfer", "cuda")
FP8_FLASHINFER_CUTLASS = _known("flashinfer_cutlass", "CUTLASS kernels through FlashInfer", "cuda")
FP8_FLASHINFER_DEEPGEMM = _known("flashinfer_deepgemm", "DeepGEMM through FlashInfer", "cuda")
FP8_FLASHINFER_CUTEDSL = _known("flashinfer_cutedsl", "CuTe DSL kernels through FlashInfer", "cuda")
FP8_CUTLASS = _known("cutlass", "CUTLASS kernels", "cuda")
FP8_TRITON = _known("triton", "portable kernels", "cuda", "rocm", "xpu")
FP8_AITER = _known("aiter", "kernels for AMD GPUs", "rocm")

FP4_CUDNN = _known("flashinfer_cudnn", "cuDNN through FlashInfer", "cuda")
FP4_CUTEDSL = _known("flashinfer_cutedsl", "CuTe DSL kernels through FlashInfer", "cuda")
FP4_CUTLASS = _known("flashinfer_cutlass", "CUTLASS kernels through FlashInfer", "cuda")
FP4_TRTLLM = _known("flashinfer_trtllm", "TensorRT-LLM kernels through FlashInfer", "cuda")
FP4_MARLIN = _known("marlin", "weights unpacked on the way", "cuda")

BF16_CUTEDSL = _known("cutedsl", "CuTe DSL kernels", "cuda")
BF16_FLASHINFER = _known("flashinfer_pr4266", "FlashInfer's kernels for few rows", "cuda")
BF16_GEMV = _known("gemv", "matrix-vector kernels for few rows", "cuda")

SAMPLING_FLASHINFER = _known("flashinfer", "sampling without sorting", "cuda")
SAMPLING_ASCEND = _known("ascend", "kernels for Ascend NPUs", "npu")

MM_SDPA = _known("sdpa", "the framework's attention")
MM_FA3 = _known("fa3", "FlashAttention 3", "cuda")
MM_FA4 = _known("fa4", "FlashAttention 4", "cuda")
MM_TRITON = _known("triton_attn", "portable kernels", "cuda", "rocm", "xpu")
MM_ASCEND = _known("ascend_attn", "kernels for Ascend NPUs", "npu")
MM_AITER = _known("aiter_attn", "kernels for AMD GPUs", "rocm")
MM_CUDNN = _known("flashinfer_cudnn", "cuDNN through FlashInfer", "cuda")
MM_AMX = _known("amx_attn", "tile kernels of x86 CPUs", "cpu")
MM_XPU = _known("xpu_attn", "kernels for Intel GPUs", "xpu")
