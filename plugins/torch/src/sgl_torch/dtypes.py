"""Data types by name: the model's compute dtype and the storage dtype of the KV cache."""

from __future__ import annotations

import torch

COMPUTE_DTYPES = {
    "float32": torch.float32,
    "float": torch.float32,
    "float16": torch.float16,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
}

KV_DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "int8": torch.int8,
}

FP8_DTYPES = (torch.float8_e4m3fn, torch.float8_e5m2)


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def compute_dtype(asked: str, checkpoint: str, fast: frozenset[str]) -> torch.dtype:
    """The dtype weights and activations have.

    ``asked`` is the user's ``dtype``; ``auto`` takes the checkpoint's where the device computes it fast (``fast`` holds such
    names beside float32), else float32. Raises ValueError naming the word when it is unknown.
    """
    if asked != "auto":
        if asked not in COMPUTE_DTYPES:
            raise ValueError(f"dtype {asked!r} is not known; use auto, {', '.join(sorted(COMPUTE_DTYPES))}")
        return COMPUTE_DTYPES[asked]
    dtype = COMPUTE_DTYPES.get(checkpoint, torch.float32)
    return dtype if dtype == torch.float32 or dtype_name(dtype) in fast else torch.float32


def kv_dtype(asked: str, compute: torch.dtype) -> torch.dtype:
    """The dtype of stored keys and values; ``auto`` is the compute dtype. Raises ValueError for one that is not served."""
    if asked == "auto":
        return compute
    if asked not in KV_DTYPES:
        raise ValueError(
            f"kv_cache_dtype {asked!r} is not served by sgl-torch; use auto, {', '.join(sorted(KV_DTYPES))}"
        )
    return KV_DTYPES[asked]
