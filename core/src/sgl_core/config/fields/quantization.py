"""Data types and quantization of weights and KV cache."""

from __future__ import annotations

from typing import Any

from ..declare import Subject, field, from_registry


class Quantization(Subject):
    """Quantization and data types."""

    namespace = "model"
    title = "Quantization and data types"

    dtype = field(
        str,
        "auto",
        "Data type of weights and activations. auto follows the checkpoint (float32 checkpoints become float16 or bfloat16).",
        choices=("auto", "half", "float16", "bfloat16", "float", "float32"),
        resolvable=True,
    )
    quantization = field(
        str | None,
        None,
        "Quantization method of the weights. Unset follows the checkpoint; naming one that works online quantizes while loading.",
        choices=from_registry("quantization", "unquant"),
        resolvable=True,
    )
    quantization_param_path = field(
        str | None,
        None,
        "JSON file with scaling factors for an FP8 KV cache. Without it the factors are 1.0, which can cost accuracy.",
        parse="nullable",
    )
    kv_cache_dtype = field(
        str,
        "auto",
        "Data type of the KV cache. auto uses the model's; the 8-bit and 4-bit ones hold two to four times the tokens.",
        choices=(
            "auto",
            "int8",
            "fp8_e5m2",
            "fp8_e4m3",
            "mxfp8",
            "bf16",
            "bfloat16",
            "nvfp4",
            "fp4_mx_block16",
            "fp4_e2m1",
        ),
        resolvable=True,
    )
    modelopt_quant = field(
        str | dict[str, Any] | None,
        None,
        "Quantize on start with NVIDIA ModelOpt: the name of a scheme or a configuration object.",
    )
    modelopt_checkpoint_restore_path = field(
        str | None, None, "A ModelOpt checkpoint to restore instead of calibrating again."
    )
    modelopt_checkpoint_save_path = field(
        str | None, None, "Where the calibrated ModelOpt checkpoint is kept for later starts."
    )
    modelopt_export_path = field(
        str | None, None, "Where the ModelOpt result is written as a Hugging Face checkpoint that any server can load."
    )
    quantize_and_serve = field(
        bool, False, "Serve right after a ModelOpt quantization instead of exporting and stopping. For trials."
    )
    rl_quant_profile = field(str | None, None, "Quantization profile file that --load-format flash_rl needs.")
