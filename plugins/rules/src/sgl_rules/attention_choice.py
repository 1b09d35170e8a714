"""Which attention backend is used: the default per machine and model, deterministic inference, and fall-backs."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, set_env, suggest

from .asking import fill, in_order, uses_mla
from .choices.query import names_with
from .graph_plan import plan_of, without_graphs
from .machine import (
    has_amx,
    has_library,
    is_apple,
    is_rocm,
    is_sm90,
    is_sm100,
    is_sm110,
    is_sm120,
    number,
)

_ABSORBED_MLA = frozenset(
    {
        "DeepseekV2ForCausalLM",
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "GlmMoeDsaForCausalLM",
        "MistralLarge3ForCausalLM",
        "PixtralForConditionalGeneration",
    }
)


def plain_draft(view: View) -> bool:
    """No speculation, or a chain of single drafts on single-token pages: what the fastest kernels verify."""
    topk = view.speculative_eagle_topk
    return topk is None or (topk == 1 and view.page_size in (1, None))


def default_backend(view: View, facts: Facts, model: ModelInfo) -> tuple[str, str]:
    """The attention backend for a model that has no rule of its own, and why."""
    if model.architecture == "WhisperForConditionalGeneration":
        return "flashinfer", "it has the cross-attention kernel"
    return _latent_default(view, facts, model) if uses_mla(model) else _plain_default(view, facts, model)


def _plain_default(view: View, facts: Facts, model: ModelInfo) -> tuple[str, str]:
    if is_sm90(facts) and plain_draft(view):
        return "fa3", "FlashAttention 3 is written for Hopper"
    spec_known = view.speculative_algorithm is None or view.speculative_eagle_topk is not None
    if is_sm100(facts) and plain_draft(view) and spec_known:
        if model.head_dim != model.v_head_dim or model.swa_head_dim != model.swa_v_head_dim:
            return "fa4", "keys and values differ in width, which only FlashAttention 4 takes on this GPU"
        return "trtllm_mha", "the TensorRT-LLM kernel is the fastest on this GPU"
    if is_rocm(facts):
        return "aiter", "AITER has the kernels for AMD GPUs"
    if is_apple(facts):
        return "torch_native", "the framework's attention runs on Metal"
    if has_library(facts, "flashinfer") and not model.attention_sinks:
        return "flashinfer", "FlashInfer is installed and fits this GPU"
    if model.attention_sinks:
        return "triton", "its kernel applies attention sinks"
    return "triton", "the portable kernel"


def _latent_default(view: View, facts: Facts, model: ModelInfo) -> tuple[str, str]:
    if is_sm90(facts):
        return "fa3", "FlashAttention 3 absorbs latent attention on Hopper"
    if is_sm100(facts):
        return "flashinfer", "its latent-attention kernel is built for this GPU"
    if is_rocm(facts):
        heads = max(1, model.num_kv_heads // view.tp_size)
        if heads in (16, 128):
            return "aiter", f"AITER's latent kernel takes {heads} heads a rank"
        return "triton", f"AITER's latent kernel takes 16 or 128 heads a rank, not {heads}"
    if is_apple(facts):
        return "torch_native", "the framework's attention runs on Metal"
    return "triton", "the portable latent-attention kernel"


@rule(
    stage="attention",
    reads=(
        "rl_on_policy_target",
        "enable_deterministic_inference",
        "sampling_backend",
        "enable_aiter_allreduce_fusion",
        "flashinfer_allreduce_fusion_backend",
    ),
    writes=(
        "enable_deterministic_inference",
        "enable_aiter_allreduce_fusion",
        "flashinfer_allreduce_fusion_backend",
        "sampling_backend",
    ),
    after=("sampling_default",),
)
def deterministic_kernels(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Deterministic inference drops every kernel whose result depends on the batch."""
    wanted = view.enable_deterministic_inference
    if view.rl_on_policy_target is not None:
        wanted = True
        if not view.enable_deterministic_inference:
            yield force("enable_deterministic_inference", True, "on-policy training compares log-probabilities exactly")
        yield set_env("SGLANG_VLM_CACHE_SIZE_MB", "0", "cached media features would hide differences")
    if not wanted:
        return
    if view.enable_aiter_allreduce_fusion:
        yield force("enable_aiter_allreduce_fusion", False, "the fused all-reduce adds in changing order")
    if view.flashinfer_allreduce_fusion_backend is not None:
        yield force("flashinfer_allreduce_fusion_backend", None, "the fused all-reduce adds in changing order")
    if view.sampling_backend not in ("ascend", "pytorch"):
        yield force("sampling_backend", "pytorch", "the framework's sampling draws per request")


@rule(
    stage="attention",
    reads=(
        "enable_deterministic_inference",
        "attention_backend",
        "tp_size",
        "disable_custom_all_reduce",
        "disable_radix_cache",
        "enable_torch_symm_mem",
    ),
    writes=("attention_backend", "disable_radix_cache", "disable_custom_all_reduce", "enable_torch_symm_mem"),
    after=("deterministic_kernels",),
)
def deterministic_attention(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Deterministic inference needs an attention kernel that adds in one order, and tree all-reduces."""
    if not view.enable_deterministic_inference:
        return
    latent = model.architecture in _ABSORBED_MLA
    allowed = names_with(view, "attention", "deterministic")
    with_prefixes = names_with(view, "attention", "radix_deterministic")
    backend = view.attention_backend
    if backend is None:
        blackwell = is_sm100(facts) or is_sm120(facts)
        backend = ("triton" if latent else "flashinfer") if blackwell else "fa3"
        yield suggest("attention_backend", backend, "the fastest kernel here that adds in one order")
    yield require(
        backend in allowed,
        f"{backend} does not add in one order",
        fix=f"use one of {', '.join(allowed)}",
        fields=("enable_deterministic_inference", "attention_backend"),
    )
    yield require(
        not latent or backend in with_prefixes,
        f"{backend} does not add in one order for absorbed latent attention",
        fix=f"use one of {', '.join(with_prefixes)}",
        fields=("enable_deterministic_inference", "attention_backend"),
    )
    yield require(
        not latent or backend != "fa4" or is_sm100(facts) or is_sm110(facts),
        "fa4 absorbs latent attention on SM100 and SM110 only",
        fields=("enable_deterministic_inference", "attention_backend"),
    )
    if backend not in with_prefixes and not view.disable_radix_cache:
        yield force("disable_radix_cache", True, f"{backend} gives other results on cached prefixes")
    if view.tp_size > 1 and not is_rocm(facts):
        because = "ring and one-shot all-reduces add in changing order"
        channels = str(number(facts, "SGLANG_DETERMINISTIC_NCCL_NCHANNELS", 8))
        yield set_env("NCCL_ALGO", "allreduce:tree", because)
        yield set_env("NCCL_MIN_NCHANNELS", channels, "the channel count decides the order of additions")
        yield set_env("NCCL_MAX_NCHANNELS", channels, "the channel count decides the order of additions")
        if not view.disable_custom_all_reduce:
            yield force("disable_custom_all_reduce", True, because)
        if view.enable_torch_symm_mem:
            yield force("enable_torch_symm_mem", False, because)


@rule(
    stage="attention",
    reads=(
        "attention_backend",
        "prefill_attention_backend",
        "decode_attention_backend",
        "page_size",
        "speculative_algorithm",
        "speculative_eagle_topk",
        "tp_size",
    ),
    writes=("attention_backend",),
    after=("deterministic_attention",),
)
def attention_default(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The common attention backend: both phases' where they agree, the machine's default where none is named."""
    prefill = view.prefill_attention_backend
    if prefill is not None and prefill == view.decode_attention_backend:
        if view.attention_backend != prefill:
            yield force("attention_backend", prefill, "prefill and decode name the same backend")
    elif view.attention_backend is None:
        backend, because = default_backend(view, facts, model)
        yield suggest("attention_backend", backend, because)


@rule(
    stage="attention",
    reads=("attention_backend", "speculative_algorithm", "cuda_graph_config", "disable_radix_cache"),
    writes=("cuda_graph_config", "disable_radix_cache"),
    after=("attention_default",),
)
def uncaptured_backends(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The framework's own attention is not captured; cross attention over audio keeps no prefix cache."""
    backend = view.attention_backend
    if backend in ("torch_native", "flex_attention"):
        plan = without_graphs(plan_of(view, facts))
        yield fill(view, "cuda_graph_config", plan, f"{backend} allocates while it runs")
    yield require(
        backend != "flex_attention" or view.speculative_algorithm is None,
        "flex attention does not verify drafts",
        fields=("attention_backend", "speculative_algorithm"),
        kind="AssertionError",
    )
    if model.architecture == "WhisperForConditionalGeneration" and not view.disable_radix_cache:
        yield force("disable_radix_cache", True, "a prefix does not identify the audio it attends to")


@rule(
    stage="attention",
    reads=("attention_backend", "kv_cache_dtype"),
    writes=("attention_backend",),
    after=("phase_kernel_checks",),
)
def fa3_without_e5m2(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """FlashAttention 3 does not read e5m2 pages."""
    if view.attention_backend == "fa3" and view.kv_cache_dtype == "fp8_e5m2":
        yield force("attention_backend", "triton", "fa3 does not read fp8_e5m2 pages")


@rule(
    stage="attention",
    reads=("attention_backend", "mem_fraction_static"),
    writes=("mem_fraction_static",),
    after=("fa4_pages",),
)
def aiter_workspace(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """AITER's workspace grows with the context: long contexts leave it 15 % of the static share."""
    if view.attention_backend != "aiter" or model.context_length <= 8192:
        return
    explicit = view.given("mem_fraction_static") is not None
    honoured = facts.env.get("SGLANG_AITER_HONOR_EXPLICIT_MEM_FRACTION", "").lower() in ("1", "true")
    if not (explicit and honoured):
        yield force(
            "mem_fraction_static",
            view.mem_fraction_static * 0.85,
            f"AITER needs a workspace for contexts of {model.context_length} tokens",
        )


@rule(
    stage="attention",
    reads=("attention_backend", "device"),
    writes=("attention_backend",),
    after=("aiter_workspace",),
)
def tiles_missing(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Intel's kernels need matrix tiles; without them the portable ones are used."""
    if view.attention_backend == "intel_amx" and view.device == "cpu" and not has_amx(facts):
        yield fill(view, "attention_backend", "torch_native", "this CPU has no AMX tiles")
    if view.attention_backend == "intel_xpu" and view.device == "xpu" and not facts.has("xmx"):
        yield fill(view, "attention_backend", "triton", "this GPU has no XMX engines")


@rule(
    stage="attention",
    reads=("attention_backend", "disable_radix_cache", "enable_mixed_chunk"),
    writes=("enable_mixed_chunk", "disable_radix_cache"),
    after=("intel_xpu_pages",),
)
def dual_chunk_caches(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Dual-chunk models need the dual-chunk kernel, and it reads neither cached prefixes nor mixed chunks."""
    backend = view.attention_backend
    if model.hf_config.get("dual_chunk_attention_config") is not None:
        yield require(
            backend == "dual_chunk_flash_attn",
            "the model attends within and between chunks",
            fix="use --attention-backend dual_chunk_flash_attn",
            fields=("attention_backend",),
        )
    if backend == "dual_chunk_flash_attn":
        if view.enable_mixed_chunk:
            yield force("enable_mixed_chunk", False, "decode tokens have no chunk")
        if not view.disable_radix_cache:
            yield force("disable_radix_cache", True, "chunk positions differ from request to request")


RULES = in_order(
    deterministic_kernels,
    deterministic_attention,
    attention_default,
    uncaptured_backends,
    fa3_without_e5m2,
    aiter_workspace,
    tiles_missing,
    dual_chunk_caches,
)
