"""Diffusion language models: blocks decoded together, which shapes pages, kernels and schedule."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule

from .asking import fill, in_order
from .graph_plan import DISABLED, plan_of, without_graphs
from .machine import is_npu, is_rocm

BLOCKS = {"LLaDA2MoeModelLM": 32, "SDARForCausalLM": 4, "SDARMoeForCausalLM": 4}
"""Tokens of a block, by architecture."""

_CACHES = ("enable_hierarchical_cache", "enable_lmcache", "enable_flexkv")


@rule(
    stage="features",
    reads=("dllm_algorithm", "attention_backend", "cuda_graph_config", "disable_overlap_schedule"),
    writes=("cuda_graph_config", "attention_backend", "disable_overlap_schedule"),
    after=("unified_pool",),
)
def block_kernels(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """A kernel that attends within a block, and no overlap with a schedule that waits for the block."""
    if view.dllm_algorithm is None:
        return
    backend, plan = view.attention_backend, plan_of(view, facts)
    because = "the kernel that attends within a block here"
    if is_rocm(facts):
        if any(phase["backend"] != DISABLED for phase in plan.values()):
            yield fill(view, "cuda_graph_config", without_graphs(plan), "blocks are not captured on AMD GPUs")
        if backend not in ("triton", "aiter"):
            yield force("attention_backend", "triton", because)
    elif is_npu(facts):
        if backend != "ascend":
            yield force("attention_backend", "ascend", because)
    elif plan["decode"]["backend"] != DISABLED and backend != "flashinfer":
        yield force("attention_backend", "flashinfer", because)
    if not view.disable_overlap_schedule:
        yield force("disable_overlap_schedule", True, "the next step depends on the whole block")


@rule(
    stage="features",
    reads=("dllm_algorithm", "disable_radix_cache", "page_size"),
    writes=("page_size",),
    after=("block_kernels",),
)
def dllm_page_size(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """A page holds a block: cached prefixes end at block borders."""
    if view.dllm_algorithm is None:
        return
    block = BLOCKS.get(model.architecture)
    yield require(
        block is not None,
        f"{model.architecture} is no diffusion language model that is known here",
        fix="drop --dllm-algorithm",
        fields=("dllm_algorithm",),
        kind="RuntimeError",
    )
    if block is None:
        return
    split = not view.disable_radix_cache and view.page_size % block != 0
    if split or view.page_size > block:
        yield force("page_size", block, f"a block of {block} tokens is a page")


@rule(
    stage="features",
    reads=(
        "dllm_algorithm",
        "disable_radix_cache",
        "pp_size",
        "enable_lora",
        "disaggregation_mode",
        "enable_flexkv",
        "enable_hierarchical_cache",
        "enable_lmcache",
        "enable_mixed_chunk",
    ),
    writes=(*_CACHES, "pp_size", "enable_lora", "disaggregation_mode", "enable_mixed_chunk"),
    after=("dllm_page_size",),
)
def block_exclusions(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """What decoding in blocks does not go with."""
    if view.dllm_algorithm is None:
        return
    because = "decoding in blocks does not go with it"
    for name in _CACHES:
        if getattr(view, name) and not view.disable_radix_cache:
            yield force(name, False, because)
    if view.pp_size > 1:
        yield force("pp_size", 1, because)
    if view.enable_lora:
        yield force("enable_lora", False, because)
    if view.disaggregation_mode != "null":
        yield force("disaggregation_mode", "null", because)
    if view.enable_mixed_chunk:
        yield force("enable_mixed_chunk", False, because)


RULES = in_order(block_kernels, dllm_page_size, block_exclusions)
