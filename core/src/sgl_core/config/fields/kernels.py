"""Kernel choices: attention, sampling, grammar, GEMM."""

from __future__ import annotations

from ..declare import OldFlag, Subject, field, from_registry


class Kernels(Subject):
    """Kernels."""

    namespace = "exec.kernel"
    title = "Kernels"

    attention_backend = field(str | None, None, "", choices=from_registry("attention"), resolvable=True)
    decode_attention_backend = field(str | None, None, "", choices=from_registry("attention"), resolvable=True)
    enable_lean_attention = field(bool | None, None, "")
    prefill_attention_backend = field(str | None, None, "", choices=from_registry("attention"), resolvable=True)
    sampling_backend = field(str | None, None, "", choices=from_registry("samplers"), resolvable=True)
    grammar_backend = field(str | None, None, "", choices=from_registry("grammars"))
    fp8_gemm_runner_backend = field(
        str, "auto", "", choices=from_registry("gemm_fp8", "auto"), flag="--fp8-gemm-backend", resolvable=True
    )
    fp4_gemm_runner_backend = field(
        str, "auto", "", choices=from_registry("gemm_fp4", "auto"), flag="--fp4-gemm-backend", resolvable=True
    )
    bf16_gemm_backend = field(str, "auto", "", choices=from_registry("gemm_bf16", "auto"))
    dsa_prefill_backend = field(
        str | None,
        None,
        "",
        choices=(
            "flashmla_sparse",
            "flashmla_sparse_q8",
            "flashmla_kv",
            "flashmla_auto",
            "flashinfer_sparse_mla",
            "fa3",
            "tilelang",
            "aiter",
            "trtllm",
        ),
        old_flags=(OldFlag("--nsa-prefill-backend", use="--dsa-prefill-backend"),),
        resolvable=True,
    )
    dsv4_prefill_backend = field(str, "auto", "", choices=("auto", "flashmla_sparse", "flashmla_sparse_q8"))
    dsa_decode_backend = field(
        str | None,
        None,
        "",
        choices=(
            "flashmla_sparse",
            "flashmla_sparse_q8",
            "flashmla_kv",
            "flashmla_auto",
            "flashinfer_sparse_mla",
            "fa3",
            "tilelang",
            "aiter",
            "trtllm",
        ),
        old_flags=(OldFlag("--nsa-decode-backend", use="--dsa-decode-backend"),),
        resolvable=True,
    )
    dsa_paged_mqa_logits_backend = field(str, "auto", "", choices=("auto", "deepgemm", "cutedsl", "aiter"))
    dsa_topk_backend = field(str, "sgl-kernel", "", choices=("sgl-kernel", "torch", "flashinfer"))
    disable_flashinfer_autotune = field(bool, False, "")
    flashinfer_autotune_skip_ops = field(list[str] | None, None, "")
    triton_attention_reduce_in_fp32 = field(bool, False, "")
    triton_attention_num_kv_splits = field(int, 8, "")
    triton_attention_split_tile_size = field(int | None, None, "")
    flashinfer_mla_disable_ragged = field(bool, False, "")
    enable_fused_qk_norm_rope = field(bool, False, "")
    enable_precise_embedding_interpolation = field(bool, False, "")
    enable_deepseek_v4_fp4_indexer = field(bool, False, "")
