"""The entries of this package. Nothing here imports torch."""

from __future__ import annotations

from sgl_core.api import QuantizationSpec

_CPU = ("cpu",)

GPTQ = QuantizationSpec(
    name="gptq",
    target="sgl_quant.gptq:config_from",
    summary="4-bit groups with or without zero points; act-order checkpoints are kept dense",
    bits=4,
    platforms=_CPU,
)
AWQ = QuantizationSpec(
    name="awq",
    target="sgl_quant.awq:config_from",
    summary="4-bit groups in AWQ's GEMM layout",
    bits=4,
    platforms=_CPU,
)
FP8 = QuantizationSpec(
    name="fp8",
    target="sgl_quant.fp8:config_from",
    summary="e4m3 weights with a scale for the tensor, each row, or blocks; activations stay float32",
    bits=8,
    platforms=_CPU,
)
W8A8_FP8 = QuantizationSpec(
    name="w8a8_fp8",
    target="sgl_quant.fp8:config_from",
    summary="e4m3 weights with a scale for each row; activations stay float32",
    bits=8,
    platforms=_CPU,
)
W8A8_INT8 = QuantizationSpec(
    name="w8a8_int8",
    target="sgl_quant.int8:config_from",
    summary="8-bit weights with a scale for each row; activations are quantized as they come",
    bits=8,
    platforms=_CPU,
)
COMPRESSED_TENSORS = QuantizationSpec(
    name="compressed-tensors",
    target="sgl_quant.compressed_tensors:config_from",
    summary="the formats pack-quantized (4 bit), int-quantized and float-quantized (8 bit) of compressed-tensors",
    bits=8,
    platforms=_CPU,
)
