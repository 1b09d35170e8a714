"""Names and numbers of weight and KV-cache formats (the numbers are part of packed files: they never change)."""

from __future__ import annotations

F32, F16, BF16, F8_E4M3 = "F32", "F16", "BF16", "F8_E4M3"
WEIGHTS: dict[str, int] = {
    "F32": 0,
    "F16": 1,
    "BF16": 2,
    "F8_E4M3": 3,
    "Q4_0": 10,
    "Q4_1": 11,
    "Q5_0": 12,
    "Q5_1": 13,
    "Q8_0": 14,
    "Q2_K": 20,
    "Q3_K": 21,
    "Q4_K": 22,
    "Q5_K": 23,
    "Q6_K": 24,
    "IQ4_NL": 25,
    "INT8_CHANNEL": 30,
    "INT4_GROUP": 31,
}
NAMES = {number: name for name, number in WEIGHTS.items()}

KV: dict[str, int] = {"float32": 0, "float16": 1, "bfloat16": 2, "float8_e4m3fn": 3, "int8": 4}


def weight_format(name: str) -> int:
    """The number of a weight format; raises ValueError naming the known ones."""
    try:
        return WEIGHTS[name.upper()]
    except KeyError:
        raise ValueError(f"weight format {name!r} has no kernel; known: {', '.join(WEIGHTS)}") from None


def kv_format(name: str) -> int:
    """The number of a KV-cache dtype; raises ValueError naming the known ones."""
    try:
        return KV[name]
    except KeyError:
        raise ValueError(f"KV cache dtype {name!r} has no kernel; known: {', '.join(KV)}") from None


ACTIVATIONS = {"silu": 0, "gelu": 1, "gelu_tanh": 2}


def activation(kind: str) -> int:
    """The number of a gated activation."""
    if kind not in ACTIVATIONS:
        raise ValueError(f"activation {kind!r} has no kernel; known: {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[kind]
