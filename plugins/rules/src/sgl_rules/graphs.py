"""Rules about graph capture: what was asked for, which features a captured prefill excludes, what each role captures."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, require, rule

from .asking import fill, in_order, phase_backends, uses_mla
from .graph_plan import (
    BACKENDS,
    BREAKABLE,
    DISABLED,
    PHASES,
    PIECEWISE,
    REQUEST_FIELDS,
    default_plan,
    locked,
    plan_of,
    prefill_sizes,
    requested,
    with_phase,
)
from .machine import is_apple, is_cpu, is_npu, is_rocm, is_xpu
from .media import media_enabled, takes_media

_NEVER_PIECEWISE = frozenset(
    {
        "BailingMoeV2_5ForCausalLM",
        "DeepseekV4ForCausalLM",
        "DeepseekV4ForCausalLMDSpark",
        "DeepseekV4ForCausalLMNextN",
        "LLaDAModelLM",
        "Qwen3NextForCausalLM",
    }
)
_PIECEWISE_WITH_MEDIA = frozenset(
    {
        "KimiK25ForConditionalGeneration",
        "MiniMaxM3SparseForCausalLM",
        "MiniMaxM3SparseForConditionalGeneration",
    }
)
_BREAKABLE_WITH_MEDIA = frozenset(
    {
        "Cohere2VisionForConditionalGeneration",
        "InternS2MobiusForConditionalGeneration",
        "KimiK25ForConditionalGeneration",
        "KimiK3ForConditionalGeneration",
        "MuseGlimmerForConditionalGeneration",
        "PaddleOCRVLForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
    }
)
_BREAKABLE_DISPATCHERS = ("none", "deepep", "megamoe", "flashinfer")


@rule(
    stage="platform",
    reads=(*REQUEST_FIELDS, "cuda_graph_config"),
    writes=("cuda_graph_config",),
    after=("distributed_weights", "full_prefill_graph", "small_prefill_graph"),
)
def graph_request(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The plan as asked for, on top of the platform's default."""
    plan = default_plan(facts)
    for (phase, key), value in requested(view).items():
        if phase in plan:
            plan[phase][key] = value
    if plan != view.cuda_graph_config:
        yield fill(view, "cuda_graph_config", plan, "the platform's default with what was asked for")


@rule(
    stage="platform",
    reads=(
        *REQUEST_FIELDS,
        "cuda_graph_config",
        "pp_size",
        "attention_backend",
        "prefill_attention_backend",
        "attn_cp_size",
        "cp_strategy",
        "cpu_offload_gb",
        "dcp_size",
        "debug_cuda_graph",
        "decode_attention_backend",
        "disaggregation_mode",
        "dllm_algorithm",
        "enable_deterministic_inference",
        "enable_dp_attention",
        "enable_dsa_prefill_context_parallel",
        "enable_eplb",
        "enable_hierarchical_cache",
        "enable_lora",
        "enable_multimodal",
        "enable_prefill_cp",
        "enable_symm_mem",
        "enable_torch_compile",
        "enable_two_batch_overlap",
        "expert_distribution_recorder_mode",
        "load_format",
        "lora_paths",
        "model_impl",
        "quantization",
        "tp_size",
        "moe_a2a_backend",
    ),
    writes=("cuda_graph_config",),
    after=("graph_request",),
)
def prefill_graph_support(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Prefill is captured only where the model and every feature in use allow it, unless it was asked for."""
    plan = plan_of(view, facts)
    if ("prefill", "backend") in locked(view):
        return
    backend = plan["prefill"]["backend"]
    if backend == BREAKABLE and view.pp_size > 1:
        yield _off(view, facts, "pipeline stages hand tensors over inside a prefill step")
        return
    arch = model.architecture
    enabled = media_enabled(view, model)
    if (
        backend == BREAKABLE
        and enabled
        and arch in _PIECEWISE_WITH_MEDIA
        and arch not in _BREAKABLE_WITH_MEDIA
        and phase_backends(view)[0] != "trtllm_mla"
    ):
        backend = PIECEWISE
        because = "this model's prefill is captured in compiled pieces"
        yield fill(view, "cuda_graph_config", with_phase(plan, "prefill", backend=PIECEWISE), because)
    if backend == PIECEWISE:
        reason = _no_piecewise(view, facts, model)
    elif backend == BREAKABLE:
        reason = _no_breakable(view, model)
    else:
        reason = None
    if reason:
        yield _off(view, facts, reason)


def _off(view: View, facts: Facts, because: str) -> Declaration:
    return fill(
        view,
        "cuda_graph_config",
        with_phase(plan_of(view, facts), "prefill", backend=DISABLED),
        f"prefill is not captured: {because}",
    )


def _no_piecewise(view: View, facts: Facts, model: ModelInfo) -> str | None:
    """Why prefill cannot be captured in compiled pieces, None where it can."""
    arch = model.architecture
    media = takes_media(view, model)
    reasons = {
        "the model": arch in _NEVER_PIECEWISE or (media and arch not in _PIECEWISE_WITH_MEDIA),
        "data-parallel attention": view.enable_dp_attention,
        "torch.compile of the whole model": view.enable_torch_compile,
        "pipeline stages": view.pp_size > 1,
        "the device": is_rocm(facts) or is_npu(facts) or is_cpu(facts) or is_apple(facts) or is_xpu(facts),
        "the expert dispatcher": view.moe_a2a_backend != "none",
        "LoRA": view.enable_lora or view.lora_paths,
        "GGUF weights": "gguf" in (view.load_format, view.quantization, model.load_format),
        "diffusion decoding": view.dllm_algorithm is not None,
        "offloading": view.cpu_offload_gb > 0 or view.enable_hierarchical_cache,
        "deterministic inference": view.enable_deterministic_inference,
        "disaggregation": view.disaggregation_mode != "null",
        "symmetric memory": view.enable_symm_mem,
        "expert statistics": view.enable_eplb or view.expert_distribution_recorder_mode is not None,
        "context parallelism": view.attn_cp_size > 1 or view.dcp_size > 1 or view.enable_dsa_prefill_context_parallel,
        "graph debugging": view.debug_cuda_graph,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _no_breakable(view: View, model: ModelInfo) -> str | None:
    """Why prefill cannot be captured in a breakable graph, None where it can."""
    arch = model.architecture
    split = (
        view.enable_prefill_cp
        and view.pp_size == 1
        and view.attn_cp_size == view.tp_size
        and view.cp_strategy == "zigzag"
        and phase_backends(view)[0] == "trtllm_mha"
    )
    reasons = {
        "the capture pool of DeepSeek V4 takes too much memory": arch.startswith("DeepseekV4ForCausalLM"),
        "context parallelism": view.attn_cp_size > 1 and not split,
        "decode context parallelism": view.dcp_size > 1,
        "two-batch overlap": view.enable_two_batch_overlap,
        "the expert dispatcher": view.moe_a2a_backend not in _BREAKABLE_DISPATCHERS,
        "media inputs": takes_media(view, model) and arch not in _BREAKABLE_WITH_MEDIA,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


@rule(
    stage="platform",
    reads=("moe_a2a_backend", "cuda_graph_config"),
    writes=("cuda_graph_config",),
    after=("prefill_graph_support",),
)
def deepep_graph_alignment(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """DeepEP dispatches tokens in groups of eight: captured prefill sizes are multiples of it."""
    plan = plan_of(view, facts)
    prefill = plan["prefill"]
    if view.moe_a2a_backend != "deepep" or prefill["backend"] != BREAKABLE:
        return
    sizes = prefill["bs"] if prefill["bs"] is not None else prefill_sizes(prefill["max_bs"] or 2048)
    aligned = sorted({(size + 7) // 8 * 8 for size in sizes})
    if aligned != sorted(sizes):
        yield fill(
            view,
            "cuda_graph_config",
            with_phase(plan, "prefill", bs=aligned, max_bs=aligned[-1]),
            "DeepEP dispatches tokens in groups of eight",
        )


@rule(
    stage="platform",
    reads=(*REQUEST_FIELDS, "disaggregation_mode", "cuda_graph_config"),
    writes=("cuda_graph_config",),
    after=("deepep_graph_alignment",),
)
def graph_roles(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """A prefill server captures no decode step and the other way round; only known backends are accepted."""
    plan = plan_of(view, facts)
    other = {"prefill": "decode", "decode": "prefill"}.get(view.disaggregation_mode)
    if other and (other, "backend") not in locked(view):
        plan = with_phase(plan, other, backend=DISABLED)
        yield fill(view, "cuda_graph_config", plan, f"a {view.disaggregation_mode} server runs no {other} steps")
    for phase in PHASES:
        backend = plan[phase]["backend"]
        yield require(
            backend in BACKENDS,
            f"there is no graph backend {backend!r}",
            fix=f"use one of {', '.join(BACKENDS)}",
            fields=("cuda_graph_config",),
        )


@rule(
    stage="attention",
    architectures=("DeepseekV3ForCausalLM",),
    reads=(
        *REQUEST_FIELDS,
        "attention_backend",
        "prefill_attention_backend",
        "cuda_graph_config",
        "decode_attention_backend",
    ),
    writes=("cuda_graph_config",),
    after=("dual_chunk_caches",),
    before=("state_kernels",),
)
def trtllm_mla_prefill_not_captured(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """DeepSeek V3 prefill on the TensorRT-LLM latent-attention kernel runs uncaptured."""
    plan = plan_of(view, facts)
    if ("prefill", "backend") in locked(view) or plan["prefill"]["backend"] == DISABLED:
        return
    if phase_backends(view)[0] == "trtllm_mla" and uses_mla(model):
        yield _off(view, facts, "the TensorRT-LLM kernel plans ragged prefill on the host")


@rule(
    stage="features",
    reads=("debug_tensor_dump_output_folder", "msprobe_dump_config", "cuda_graph_config"),
    writes=("cuda_graph_config", "skip_server_warmup"),
    after=("dllm_page_size",),
)
def dumps_without_graphs(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Dumping tensors needs Python between the operations of a step."""
    if view.debug_tensor_dump_output_folder is None and view.msprobe_dump_config is None:
        return
    plan = plan_of(view, facts)
    for phase in PHASES:
        plan = with_phase(plan, phase, backend=DISABLED)
    because = "tensors are dumped from Python between the operations"
    yield fill(view, "cuda_graph_config", plan, because)
    yield fill(view, "skip_server_warmup", True, "a warm-up would be dumped too")


RULES = in_order(
    graph_request,
    prefill_graph_support,
    deepep_graph_alignment,
    graph_roles,
    trtllm_mla_prefill_not_captured,
    dumps_without_graphs,
)
