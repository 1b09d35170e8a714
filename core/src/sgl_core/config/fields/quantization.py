"""Data types and quantization of weights and KV cache."""

from __future__ import annotations

from typing import Any

from ..declare import Subject, field, from_registry


class Quantization(Subject):
    """Quantization and data types."""

    namespace = "model"
    title = "Quantization and data types"

    dtype = field(str, "auto", "", choices=("auto", "half", "float16", "bfloat16", "float", "float32"), resolvable=True)
    quantization = field(str | None, None, "", choices=from_registry("quantization", "unquant"), resolvable=True)
    quantization_param_path = field(str | None, None, "", parse="nullable")
    kv_cache_dtype = field(
        str,
        "auto",
        "",
        choices=("auto", "fp8_e5m2", "fp8_e4m3", "mxfp8", "bf16", "bfloat16", "nvfp4", "fp4_mx_block16", "fp4_e2m1"),
        resolvable=True,
    )
    modelopt_quant = field(str | dict[str, Any] | None, None, "")
    modelopt_checkpoint_restore_path = field(str | None, None, "")
    modelopt_checkpoint_save_path = field(str | None, None, "")
    modelopt_export_path = field(str | None, None, "")
    quantize_and_serve = field(bool, False, "")
    rl_quant_profile = field(str | None, None, "")
