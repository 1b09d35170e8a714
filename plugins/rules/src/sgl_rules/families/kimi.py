"""Kimi K3 and Kimi Linear: latent attention beside delta attention, DSPARK drafts, decode context parallelism."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest

from ..asking import backends_unset, fill, in_order, phase_backends
from ..machine import has_library, is_sm100

K3 = ("KimiK3ForConditionalGeneration",)
DELTA = (*K3, "KimiLinearForCausalLM")
_PROVEN_SM = (100, 103)


@rule(
    stage="model",
    architectures=K3,
    reads=(
        "dcp_size",
        "attention_backend",
        "prefill_attention_backend",
        "decode_attention_backend",
        "dcp_replicate_q_proj",
        "enable_symm_mem",
        "speculative_algorithm",
    ),
    writes=(
        "enable_symm_mem",
        "speculative_attention_mode",
        "prefill_attention_backend",
        "decode_attention_backend",
        "kv_cache_dtype",
        "dcp_replicate_q_proj",
        "dcp_comm_backend",
    ),
    before=("state_cache",),
)
def k3_decode_context(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Under decode context parallelism two kernels merge partial results, each with its prefill partner."""
    if view.dcp_size <= 1:
        return
    if view.enable_symm_mem:
        yield force("enable_symm_mem", False, "the exchange brings its own buffers")
    if view.speculative_algorithm == "DSPARK":
        mode = facts.env.get("SGLANG_RAGGED_VERIFY_MODE", "static")
        yield require(
            mode == "static",
            "drafts of different lengths are not verified across context ranks",
            fix="set SGLANG_RAGGED_VERIFY_MODE=static",
            fields=("dcp_size", "speculative_algorithm"),
        )
        yield force("speculative_attention_mode", "decode", "drafts are verified by the decode kernel")
    decode = phase_backends(view)[1]
    yield require(
        decode in (None, "cutedsl_mla", "tokenspeed_mla"),
        f"{decode} does not merge partial attention",
        fix="use --decode-attention-backend cutedsl_mla or tokenspeed_mla",
        fields=("dcp_size", "decode_attention_backend"),
        kind="AssertionError",
    )
    because = "the pair of kernels that merges partial attention"
    if decode == "tokenspeed_mla":
        yield force("prefill_attention_backend", decode, because)
        yield force("decode_attention_backend", decode, because)
        yield force("kv_cache_dtype", "fp8_e4m3", "tokenspeed_mla reads FP8 pages")
    else:
        yield require(
            facts.has("flashinfer_mla_dcp") or not has_library(facts, "flashinfer"),
            "the installed FlashInfer cannot return partial attention",
            fix="install FlashInfer 0.6.17 or newer",
            fields=("dcp_size",),
            kind="RuntimeError",
        )
        yield require(
            has_library(facts, "flashinfer"),
            "FlashInfer, which has the decode kernel, is not installed",
            fix="install FlashInfer 0.6.17 or newer",
            fields=("dcp_size",),
            kind="RuntimeError",
        )
        yield force("prefill_attention_backend", "trtllm_mla", because)
        yield force("decode_attention_backend", "cutedsl_mla", because)
    if view.dcp_replicate_q_proj is None:
        yield suggest("dcp_replicate_q_proj", True, "a small matrix saves a gather per layer")
    fabric = facts.has("mnnvl_fabric")
    yield force(
        "dcp_comm_backend",
        "fi_a2a" if fabric else "a2a",
        "the NVLink fabric spans the ranks" if fabric else "partial results are exchanged all to all",
    )


@rule(
    stage="model",
    architectures=K3,
    reads=(
        "dcp_size",
        "speculative_algorithm",
        "attention_backend",
        "kv_cache_dtype",
        "decode_attention_backend",
        "prefill_attention_backend",
        "speculative_dspark_block_size",
        "speculative_num_draft_tokens",
    ),
    writes=("prefill_attention_backend", "decode_attention_backend", "speculative_attention_mode"),
    after=("k3_decode_context",),
    before=("state_cache",),
)
def k3_attention(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """On SM100 both phases use the TensorRT-LLM kernel, and DSPARK drafts are verified by the decode kernel."""
    if view.dcp_size > 1 or not is_sm100(facts) or facts.arch not in _PROVEN_SM:
        return
    unset = backends_unset(view)
    if unset:
        because = "the fastest latent-attention kernel on this GPU"
        yield suggest("prefill_attention_backend", "trtllm_mla", because)
        yield suggest("decode_attention_backend", "trtllm_mla", because)
    if view.speculative_algorithm != "DSPARK":
        return
    block = view.speculative_dspark_block_size
    width = view.speculative_num_draft_tokens or (8 if block is None else block + 1)
    decode = "trtllm_mla" if unset else phase_backends(view)[1]
    wide = decode in ("trtllm_mla", "cutedsl_mla")
    if wide or (decode == "tokenspeed_mla" and view.kv_cache_dtype == "fp8_e4m3" and width <= 8):
        yield force("speculative_attention_mode", "decode", f"{decode} verifies {width} tokens in one decode call")


@rule(
    stage="model",
    architectures=K3,
    reads=("moe_runner_backend",),
    writes=("moe_runner_backend",),
    before=("state_cache",),
)
def k3_experts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """MXFP4 experts have a runner on SM100."""
    groups = model.quant_config.get("config_groups") or {}
    mxfp4 = any("mxfp4" in str(group.get("format", "")) for group in groups.values() if isinstance(group, dict))
    if view.moe_runner_backend == "auto" and is_sm100(facts) and facts.arch in (*_PROVEN_SM, 107) and mxfp4:
        yield fill(view, "moe_runner_backend", "flashinfer_mxfp4", "the runner for MXFP4 experts on this GPU")


@rule(
    stage="model",
    architectures=DELTA,
    reads=(
        "speculative_algorithm",
        "linear_attn_verify_backend",
        "mamba_ssm_dtype",
        "linear_attn_decode_backend",
        "speculative_draft_attention_backend",
    ),
    writes=("linear_attn_verify_backend", "linear_attn_decode_backend", "speculative_draft_attention_backend"),
    after=("k3_attention",),
    before=("state_cache",),
)
def delta_attention_kernels(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Delta attention decodes in Triton and verifies drafts in a kernel of its own."""
    if view.linear_attn_decode_backend is None and view.mamba_ssm_dtype == "bfloat16" and is_sm100(facts):
        yield suggest(
            "linear_attn_decode_backend", "triton", "FlashInfer has no delta attention with decay per channel"
        )
    if view.speculative_algorithm is None:
        return
    if view.linear_attn_verify_backend is None:
        yield suggest("linear_attn_verify_backend", "nv_cutedsl", "it verifies a chain of drafts in one pass")
    draft = view.speculative_draft_attention_backend
    if view.speculative_algorithm == "DSPARK" and draft is None and is_sm100(facts):
        yield suggest("speculative_draft_attention_backend", "trtllm_mha", "the draft attends without latents")


RULES = in_order(k3_decode_context, k3_attention, k3_experts, delta_attention_kernels)
