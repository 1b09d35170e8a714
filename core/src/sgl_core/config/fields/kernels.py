"""Kernel choices: attention, sampling, grammar, GEMM."""

from __future__ import annotations

from ..declare import OldFlag, Subject, field, from_registry


class Kernels(Subject):
    """Kernels."""

    namespace = "exec.kernel"
    title = "Kernels"

    attention_backend = field(
        str | None,
        None,
        "Kernels for attention. Unset takes the platform's best for this model.",
        choices=from_registry("attention"),
        resolvable=True,
    )
    decode_attention_backend = field(
        str | None,
        None,
        "Kernels for decoding; outweighs --attention-backend.",
        choices=from_registry("attention"),
        resolvable=True,
    )
    enable_lean_attention = field(
        bool | None, None, "Use the work-balanced decode kernel for long contexts. Unset decides by length."
    )
    prefill_attention_backend = field(
        str | None,
        None,
        "Kernels for prefilling; outweighs --attention-backend.",
        choices=from_registry("attention"),
        resolvable=True,
    )
    sampling_backend = field(
        str | None, None, "Kernels for choosing tokens.", choices=from_registry("samplers"), resolvable=True
    )
    grammar_backend = field(
        str | None, None, "Engine for structured output.", choices=from_registry("grammars", "none")
    )
    fp8_gemm_runner_backend = field(
        str,
        "auto",
        "Kernels for block-scaled FP8 matrix products.",
        choices=from_registry("gemm_fp8", "auto"),
        flag="--fp8-gemm-backend",
        resolvable=True,
    )
    fp4_gemm_runner_backend = field(
        str,
        "auto",
        "Kernels for NVFP4 matrix products.",
        choices=from_registry("gemm_fp4", "auto"),
        flag="--fp4-gemm-backend",
        resolvable=True,
    )
    bf16_gemm_backend = field(
        str,
        "auto",
        "Kernels for unquantized bfloat16 matrix products.",
        choices=from_registry("gemm_bf16", "auto", "torch"),
    )
    dsa_prefill_backend = field(
        str | None,
        None,
        "Kernels for DeepSeek sparse attention while prefilling.",
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
    dsv4_prefill_backend = field(
        str,
        "auto",
        "Kernels for DeepSeek-V4 sparse attention while prefilling.",
        choices=("auto", "flashmla_sparse", "flashmla_sparse_q8"),
    )
    dsa_decode_backend = field(
        str | None,
        None,
        "Kernels for DeepSeek sparse attention while decoding.",
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
    dsa_paged_mqa_logits_backend = field(
        str,
        "auto",
        "Kernels for the sparse-attention indexer's scores.",
        choices=("auto", "deepgemm", "cutedsl", "aiter"),
    )
    dsa_topk_backend = field(
        str,
        "sgl-kernel",
        "Kernels for the sparse-attention indexer's selection.",
        choices=("sgl-kernel", "torch", "flashinfer"),
    )
    disable_flashinfer_autotune = field(bool, False, "Do not tune FlashInfer kernels at start.")
    flashinfer_autotune_skip_ops = field(list[str] | None, None, "FlashInfer operations left out of tuning.")
    triton_attention_reduce_in_fp32 = field(bool, False, "Add partial attention results up in float32 (Triton).")
    triton_attention_num_kv_splits = field(
        int,
        8,
        "Pieces into which Triton cuts a long context while decoding. More suit longer contexts and few requests.",
    )
    triton_attention_split_tile_size = field(
        int | None, None, "Fixed length of those pieces in tokens, for deterministic answers."
    )
    flashinfer_mla_disable_ragged = field(bool, False, "Do not use FlashInfer's ragged prefill for MLA.")
    enable_fused_qk_norm_rope = field(bool, False, "Norm and rotate query and key in one kernel.")
    enable_precise_embedding_interpolation = field(
        bool, False, "Resize position embeddings of images corner-aligned: slower, exact."
    )
    enable_deepseek_v4_fp4_indexer = field(bool, False, "Run the DeepSeek-V4 indexer in FP4. Experimental.")
