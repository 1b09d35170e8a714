"""The entries of sgl-torch in the registries of attention backends and ops."""

from __future__ import annotations

from sgl_core.api import AttentionSpec, OpSpec

TORCH_NATIVE = AttentionSpec(
    name="torch_native",
    target="sgl_torch.attention.torch_native:make",
    summary="scaled_dot_product_attention over gathered pages; runs wherever torch does, and is what others are tested against",
    kv_dtypes=frozenset({"auto", "float32", "float16", "bfloat16", "bf16", "fp8_e4m3", "fp8_e5m2"}),
    sliding_window=True,
    sinks=True,
    soft_cap=True,
    flags=frozenset({"deterministic", "chunked_prefix"}),
)


def _op(op: str, target: str, summary: str) -> OpSpec:
    return OpSpec(name=f"torch_{op}", op=op, target=f"sgl_torch.ops.reference:{target}", summary=summary)


EMBEDDING = _op("embedding", "TorchEmbedding", "dense table lookup")
LINEAR = _op("linear", "TorchLinear", "dense product; quantized parts are dequantized at load")
RMS_NORM = _op("rms_norm", "make_rms_norm", "root-mean-square norm")
ADD_RMS_NORM = _op("add_rms_norm", "make_add_rms_norm", "residual addition, then root-mean-square norm")
ROPE = _op("rope", "TorchRope", "rotary positions")
SILU_MUL = _op("silu_mul", "make_silu_mul", "silu(gate) * up")
GELU_MUL = _op("gelu_mul", "make_gelu_mul", "gelu(gate) * up")
