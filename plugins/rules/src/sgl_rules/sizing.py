"""Sizes that follow from device memory: prefill chunk, captured batch sizes, and the share of memory for weights and KV.

The figures are the reference system's (release 0.5.19), measured by its maintainers on the devices named in the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, require, rule, suggest

from .asking import fill, in_order, uses_mla
from .graph_plan import BREAKABLE, DISABLED, cpu_sizes, decode_sizes, locked, plan_of, prefill_sizes
from .machine import switch
from .media import takes_media

_GIB = 1024
_PIPELINE_PREFILL_TOKENS = 8192
"""Breakable prefill graphs are captured per stage; longer ones do not pay for their memory."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Sizes for devices with less than ``below_mib`` of memory: tokens a chunk, largest captured batch by width."""

    below_mib: float
    chunk: int
    narrow_batch: int
    wide_batch: int


TIERS = (
    Tier(20 * _GIB, 2048, 8, 8),  # T4, RTX 4080
    Tier(35 * _GIB, 2048, 24, 80),  # A10, RTX 4090, RTX 5090
    Tier(60 * _GIB, 4096, 32, 160),  # A100-40GB, L40
    Tier(90 * _GIB, 8192, 256, 512),  # H100, A100-80GB
    Tier(160 * _GIB, 8192, 256, 512),  # H20, H200
    Tier(float("inf"), 16384, 512, 512),  # B200, MI300X
)
UNKNOWN_MEMORY = Tier(float("inf"), 4096, 160, 160)


def tier_of(memory_mib: float | None) -> Tier:
    """The row of the size table for a device's memory."""
    if memory_mib is None:
        return UNKNOWN_MEMORY
    return next(tier for tier in TIERS if memory_mib < tier.below_mib)


def planned_memory(view: View, facts: Facts) -> float | None:
    """Memory that sizes are planned for, in MiB: the GPU's on GPU machines whatever device was asked for."""
    return facts.device_memory_mib


@rule(
    stage="platform",
    reads=(
        "chunked_prefill_size",
        "cuda_graph_config",
        "tp_size",
        "device",
        "max_total_tokens",
        "pp_size",
        "cuda_graph_tc_compiler",
        "disable_cuda_graph",
        "disable_cuda_graph_padding",
        "disable_decode_cuda_graph",
        "disable_prefill_cuda_graph",
        "model_path",
        "speculative_algorithm",
        "torch_compile_max_bs",
    ),
    writes=("chunked_prefill_size", "cuda_graph_config", "torch_compile_max_bs"),
    after=("symmetric_memory_support",),
)
def sizes_by_memory(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Prefill chunk and captured sizes from the size table."""
    memory = planned_memory(view, facts)
    tier = tier_of(memory)
    size = "unknown device memory" if memory is None else f"device memory of {memory:.0f} MiB"
    chunk = view.chunked_prefill_size
    if chunk is None:
        chunk = tier.chunk
        yield suggest("chunked_prefill_size", chunk, size)
    plan = plan_of(view, facts)
    decode, prefill = plan["decode"], plan["prefill"]
    if decode["max_bs"] is None:
        decode["max_bs"] = tier.wide_batch if view.tp_size >= 4 else tier.narrow_batch
    padding = not view.disable_cuda_graph_padding
    if view.device != "cpu":
        if decode["bs"] is None:
            speculative = view.speculative_algorithm is not None
            decode["bs"] = decode_sizes(decode["max_bs"], padding=padding, speculative=speculative)
        else:
            decode["max_bs"] = max(decode["bs"])
    else:
        compiled = max(decode["bs"]) if decode["bs"] is not None else view.torch_compile_max_bs or decode["max_bs"]
        yield require(
            compiled > 0,
            "captured batch sizes are positive",
            fields=("torch_compile_max_bs", "cuda_graph_config"),
            kind="AssertionError",
        )
        if compiled != view.torch_compile_max_bs:
            yield fill(view, "torch_compile_max_bs", compiled, "a CPU compiles what it captures")
        if decode["bs"] is None:
            decode["bs"] = cpu_sizes(compiled, padding=padding)
        decode["max_bs"] = compiled
    if prefill["max_bs"] is None:
        prefill["max_bs"] = _longest_prefill(view, model, chunk, prefill["backend"])
    if prefill["bs"] is None:
        prefill["bs"] = prefill_sizes(prefill["max_bs"])
    if plan != view.cuda_graph_config:
        yield fill(view, "cuda_graph_config", plan, f"sizes for {size}")


def _longest_prefill(view: View, model: ModelInfo, chunk: int, backend: str) -> int:
    """Longest captured prefill in tokens: the chunk; latent attention gains little beyond 2048."""
    longest = 2048 if uses_mla(model) else chunk
    if view.pp_size > 1 and backend == BREAKABLE and ("prefill", "bs") not in locked(view):
        longest = min(longest, _PIPELINE_PREFILL_TOKENS)
    if view.max_total_tokens is not None:
        longest = min(longest, view.max_total_tokens)
    if "llama-2" in (view.model_path or "").lower():
        longest = min(longest, 4096)
    return longest


@rule(
    stage="platform",
    reads=(
        "mem_fraction_static",
        "chunked_prefill_size",
        "cuda_graph_config",
        "tp_size",
        "pp_size",
        "dp_size",
        "dcp_size",
        "device",
        "disaggregation_mode",
        "enable_dp_attention",
        "enable_dynamic_chunking",
        "enable_memory_saver",
        "enable_multimodal",
        "kv_cache_dtype",
        "language_model_only",
        "language_only",
        "max_prefill_tokens",
        "max_running_requests",
        "model_impl",
        "moe_a2a_backend",
        "prefill_only_disable_kv_cache",
        "speculative_num_draft_tokens",
    ),
    writes=("mem_fraction_static",),
    after=("sizes_by_memory",),
)
def static_memory(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The share of device memory for weights and KV: all but what activations, graphs and buffers need."""
    if view.mem_fraction_static is not None:
        return
    memory = planned_memory(view, facts)
    if memory is None:
        share = 0.88
        because = "device memory is unknown: the customary share"
    else:
        reserve = reserved_mib(view, facts, model, memory)
        share = round((memory - reserve) / memory, 3)
        because = f"{reserve:.0f} MiB of {memory:.0f} are left for activations, graphs and buffers"
    factor = vision_factor(view, model)
    if factor is not None:
        share = share * factor
        because += f"; the vision tower needs {100 * (1 - factor):.1f} % of the rest"
    yield suggest("mem_fraction_static", share, because)


def reserved_mib(view: View, facts: Facts, model: ModelInfo, memory_mib: float) -> float:
    """Memory kept free of weights and KV, in MiB.

    512 for the context and the framework, 1.5 per token of the largest step, 1024 per eight ranks for communication,
    the graphs (:func:`graph_mib`), at least 10 GiB on devices above 60 GiB, and 2 GiB for DeepEP's decode buffers.
    """
    ranks: float = view.tp_size * view.pp_size / 8 * 1024
    if _sized_after_capture(view, facts, model):
        return 1536 + ranks
    plan = plan_of(view, facts)
    if view.disaggregation_mode == "decode":
        requests = view.max_running_requests or plan["decode"]["max_bs"] or 1
        tokens = requests * (view.speculative_num_draft_tokens or 1)
    elif view.chunked_prefill_size > 0:
        tokens = view.chunked_prefill_size
    else:
        tokens = view.max_prefill_tokens
    reserve: float = 512 + max(tokens, 2048) * 1.5 + ranks + graph_mib(view, facts, model)
    if memory_mib > 60 * _GIB:
        reserve = max(reserve, 10 * _GIB)
    captured = view.disaggregation_mode != "prefill" and plan["decode"]["backend"] != DISABLED
    if captured and view.moe_a2a_backend == "deepep":
        reserve += 2 * _GIB
    return reserve


def graph_mib(view: View, facts: Facts, model: ModelInfo) -> float:
    """Memory for captured graphs, in MiB: 2 per decode request, 8 per prefill size (1.5 GiB under latent attention)."""
    plan, mode = plan_of(view, facts), view.disaggregation_mode
    decode, prefill = plan["decode"], plan["prefill"]
    total = 0.0
    if mode != "prefill" and decode["backend"] != DISABLED:
        total += decode["max_bs"] * 2
    if view.enable_dp_attention and mode != "prefill":
        total += decode["max_bs"] * view.dp_size * 3
        if decode["max_bs"] > 300:
            total += decode["max_bs"] * view.dp_size * 1.5
    if mode != "decode" and prefill["backend"] != DISABLED:
        total += 1.5 * 1024 if uses_mla(model) else len(prefill["bs"]) * 8
        if prefill["backend"] == BREAKABLE and view.moe_a2a_backend == "deepep":
            total += 1024
    return total


def _sized_after_capture(view: View, facts: Facts, model: ModelInfo) -> bool:
    """Whether KV is sized by what is free after graph capture, so that little needs to be estimated now."""
    plan, mode = plan_of(view, facts), view.disaggregation_mode
    if not switch(facts, "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING") or view.device != "cuda" or uses_mla(model):
        return False
    if view.dcp_size != 1 or view.kv_cache_dtype == "fp4_e2m1" or view.prefill_only_disable_kv_cache:
        return False
    if view.enable_memory_saver or facts.env.get("SGLANG_MOONCAKE_CUSTOM_MEM_POOL") is not None:
        return False
    if mode != "prefill" and plan["decode"]["backend"] == DISABLED:
        return False
    if mode != "decode":
        chunk, prefill = view.chunked_prefill_size, plan["prefill"]
        if prefill["backend"] == DISABLED or chunk <= 0 or prefill_buffer_tokens(view) > max(prefill["bs"] or (0,)):
            return False
    return not model.architecture.startswith(("DeepseekV4ForCausalLM", "MiniMaxM3Sparse"))


def prefill_buffer_tokens(view: View) -> int:
    """Tokens that prefill buffers must hold; dynamic chunks of a pipeline grow by up to a quarter."""
    chunk = max(view.chunked_prefill_size or 0, 0)
    if view.enable_dynamic_chunking and view.pp_size > 1 and chunk:
        return max(chunk, view.max_prefill_tokens or 0, -(-chunk * 5 // 4))
    return chunk


def vision_factor(view: View, model: ModelInfo) -> float | None:
    """By how much a vision tower shrinks the static share: 5 %, and more or less as it outweighs a ViT-L or not.

    The weight of a tower is layers * hidden size squared; every ViT-L (24 layers of 1024) beyond the first costs
    another 10 %, within 0.8 and 1.05.
    """
    served = takes_media(view, model) and not view.language_only and not view.language_model_only
    if not served or view.disaggregation_mode == "decode" or not model.vision_layers:
        return None
    weight = model.vision_layers * model.vision_hidden_size**2 / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (weight - 1.0)))


RULES = in_order(sizes_by_memory, static_memory)
