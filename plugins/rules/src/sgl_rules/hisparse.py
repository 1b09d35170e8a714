"""HiSparse: selected keys of sparse attention kept in host memory, and the kernels and caches it works with."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, require, rule

from .asking import in_order, is_dsa
from .machine import is_rocm

_CUDA_KERNELS = {
    "bfloat16": ("flashmla_sparse",),
    "fp8_e4m3": ("flashinfer_sparse_mla", "flashmla_kv"),
}
_ANY_CUDA_KERNEL = ("flashinfer_sparse_mla", "flashmla_kv", "flashmla_sparse")
_ROCM_KERNELS = ("aiter", "tilelang")


@rule(
    stage="checks",
    reads=("enable_hisparse", "disable_radix_cache", "kv_cache_dtype", "dsa_prefill_backend", "dsa_decode_backend"),
    after=("media_in_one_chunk",),
)
def hisparse_limits(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """HiSparse needs sparse attention, no prefix cache, and kernels that read keys brought from the host."""
    if not view.enable_hisparse:
        return
    v4 = model.architecture.startswith("DeepseekV4ForCausalLM")
    yield require(
        is_dsa(model) or v4,
        "only sparse attention leaves most keys untouched",
        fields=("enable_hisparse",),
        kind="AssertionError",
    )
    yield require(
        bool(view.disable_radix_cache),
        "cached prefixes would have to stay on the device",
        fix="add --disable-radix-cache",
        fields=("enable_hisparse", "disable_radix_cache"),
        kind="AssertionError",
    )
    if is_rocm(facts) and v4:
        yield require(
            facts.env.get("SGLANG_HACK_FLASHMLA_BACKEND") != "unified_kv_triton",
            "host keys are kept in the packed layout",
            fix="set SGLANG_HACK_FLASHMLA_BACKEND=triton",
            fields=("enable_hisparse",),
        )
        return
    dtype = view.kv_cache_dtype
    yield require(
        dtype in ("bfloat16", "auto", "fp8_e4m3"),
        "host keys are kept in bfloat16 or fp8_e4m3",
        fields=("enable_hisparse", "kv_cache_dtype"),
    )
    allowed = _ROCM_KERNELS if is_rocm(facts) else _CUDA_KERNELS.get(dtype, _ANY_CUDA_KERNEL)
    for name in ("dsa_prefill_backend", "dsa_decode_backend"):
        kernel = getattr(view, name)
        yield require(
            kernel is None or kernel in allowed,
            f"{kernel} does not read keys brought from the host",
            fix=f"use one of {', '.join(allowed)}",
            fields=("enable_hisparse", name),
        )


RULES = in_order(hisparse_limits)
