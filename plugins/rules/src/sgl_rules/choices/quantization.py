"""Quantization methods that are known by name: bits per weight, whether plain weights can be quantized on loading."""

from __future__ import annotations

from sgl_core.api.specs import QuantizationSpec

from .absent import NOT_INSTALLED

AWQ = QuantizationSpec(name="awq", bits=4, available=False, unavailable_because=NOT_INSTALLED)
FP8 = QuantizationSpec(name="fp8", bits=8, online=True, available=False, unavailable_because=NOT_INSTALLED)
MXFP8 = QuantizationSpec(name="mxfp8", bits=8, online=True, available=False, unavailable_because=NOT_INSTALLED)
GPTQ = QuantizationSpec(name="gptq", bits=4, available=False, unavailable_because=NOT_INSTALLED)
GPTQ_MARLIN = QuantizationSpec(
    name="gptq_marlin", bits=4, platforms=("cuda",), available=False, unavailable_because=NOT_INSTALLED
)
AWQ_MARLIN = QuantizationSpec(
    name="awq_marlin", bits=4, platforms=("cuda",), available=False, unavailable_because=NOT_INSTALLED
)
BITSANDBYTES = QuantizationSpec(
    name="bitsandbytes", bits=4, online=True, available=False, unavailable_because=NOT_INSTALLED
)
GGUF = QuantizationSpec(name="gguf", bits=4, available=False, unavailable_because=NOT_INSTALLED)
MODELOPT = QuantizationSpec(name="modelopt", bits=8, online=True, available=False, unavailable_because=NOT_INSTALLED)
MODELOPT_FP8 = QuantizationSpec(
    name="modelopt_fp8", bits=8, online=True, available=False, unavailable_because=NOT_INSTALLED
)
MODELOPT_FP4 = QuantizationSpec(
    name="modelopt_fp4", bits=4, online=True, available=False, unavailable_because=NOT_INSTALLED
)
NVFP4_ONLINE = QuantizationSpec(
    name="nvfp4_online",
    bits=4,
    online=True,
    checkpoint=False,
    platforms=("cuda",),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
MODELOPT_MIXED = QuantizationSpec(name="modelopt_mixed", bits=4, available=False, unavailable_because=NOT_INSTALLED)
PETIT_NVFP4 = QuantizationSpec(
    name="petit_nvfp4", bits=4, platforms=("rocm",), available=False, unavailable_because=NOT_INSTALLED
)
W8A8_INT8 = QuantizationSpec(name="w8a8_int8", bits=8, online=True, available=False, unavailable_because=NOT_INSTALLED)
W8A8_FP8 = QuantizationSpec(name="w8a8_fp8", bits=8, online=True, available=False, unavailable_because=NOT_INSTALLED)
MOE_WNA16 = QuantizationSpec(name="moe_wna16", bits=4, available=False, unavailable_because=NOT_INSTALLED)
W4AFP8 = QuantizationSpec(name="w4afp8", bits=4, available=False, unavailable_because=NOT_INSTALLED)
MXFP4 = QuantizationSpec(name="mxfp4", bits=4, available=False, unavailable_because=NOT_INSTALLED)
AUTO_ROUND = QuantizationSpec(name="auto-round", bits=4, available=False, unavailable_because=NOT_INSTALLED)
AUTO_ROUND_INT8 = QuantizationSpec(name="auto-round-int8", bits=8, available=False, unavailable_because=NOT_INSTALLED)
COMPRESSED_TENSORS = QuantizationSpec(
    name="compressed-tensors", bits=8, available=False, unavailable_because=NOT_INSTALLED
)
MODELSLIM = QuantizationSpec(
    name="modelslim", bits=8, platforms=("npu",), available=False, unavailable_because=NOT_INSTALLED
)
MXFP_W4A8 = QuantizationSpec(
    name="mxfp_w4a8", bits=4, platforms=("npu",), available=False, unavailable_because=NOT_INSTALLED
)
QUARK = QuantizationSpec(name="quark", bits=8, available=False, unavailable_because=NOT_INSTALLED)
QUARK_INT4FP8_MOE = QuantizationSpec(
    name="quark_int4fp8_moe",
    bits=4,
    online=True,
    checkpoint=False,
    platforms=("rocm",),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
QUARK_MXFP4 = QuantizationSpec(
    name="quark_mxfp4",
    bits=4,
    online=True,
    checkpoint=False,
    platforms=("rocm",),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
MLX_Q4 = QuantizationSpec(
    name="mlx_q4",
    bits=4,
    online=True,
    checkpoint=False,
    platforms=("mlx", "mps"),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
MLX_Q8 = QuantizationSpec(
    name="mlx_q8",
    bits=8,
    online=True,
    checkpoint=False,
    platforms=("mlx", "mps"),
    available=False,
    unavailable_because=NOT_INSTALLED,
)
HUMMING = QuantizationSpec(name="humming", bits=4, online=True, available=False, unavailable_because=NOT_INSTALLED)
