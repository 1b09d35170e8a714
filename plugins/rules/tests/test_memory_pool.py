"""Cases of the rules in sgl_rules.memory_pool: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.graph_plan import default_plan, with_phase
from sgl_rules.memory_pool import (
    cache_exclusions,
    fp4_pages,
    hicache_layout,
    hicache_ratio_default,
    page_major_layout,
    page_size_default,
    prefill_only_backend,
    prefill_only_request,
    unified_pool,
)

PLAN = default_plan(MACHINES["sm90"])

CASES = (
    Case(hicache_ratio_default, {"hicache_ratio": 2.0}),
    Case(hicache_ratio_default, {"hicache_ratio": 1.2}, hicache_host_memory_mode="buffer_only"),
    Case(hicache_ratio_default, {}, disaggregation_mode="decode"),
    Case(prefill_only_request, "ValueError", prefill_only_disable_kv_cache=True),
    Case(
        prefill_only_request,
        {},
        prefill_only_disable_kv_cache=True,
        is_embedding=True,
        chunked_prefill_size=-1,
        disable_radix_cache=True,
    ),
    Case(fp4_pages, "RuntimeError", machine="rocm", kv_cache_dtype="nvfp4"),
    Case(fp4_pages, "RuntimeError", kv_cache_dtype="nvfp4"),
    Case(fp4_pages, "AssertionError", machine="sm100", kv_cache_dtype="nvfp4", attention_backend="flashinfer"),
    Case(fp4_pages, "ValueError", kv_cache_dtype="mxfp8"),
    Case(fp4_pages, {}, machine="sm100", kv_cache_dtype="nvfp4", attention_backend="trtllm_mha"),
    Case(page_size_default, {"page_size": 1}),
    Case(page_size_default, {"page_size": 64}, machine="musa"),
    Case(page_size_default, {"page_size": 64}, machine="rocm", env={"SGLANG_AITER_KV_CACHE_LAYOUT": "vectorized_5d"}),
    Case(page_size_default, {}, page_size=16),
    Case(prefill_only_backend, "ValueError", prefill_only_disable_kv_cache=True, attention_backend="triton"),
    Case(prefill_only_backend, {}, prefill_only_disable_kv_cache=True, attention_backend="fa3"),
    Case(
        hicache_layout,
        {"hicache_io_backend": "direct"},
        enable_hierarchical_cache=True,
        hicache_ratio=2.0,
        hicache_mem_layout="page_first_direct",
    ),
    Case(
        hicache_layout,
        {"hicache_mem_layout": "page_first_direct"},
        enable_hierarchical_cache=True,
        hicache_ratio=2.0,
        hicache_io_backend="direct",
    ),
    Case(
        hicache_layout,
        {"hicache_mem_layout": "page_first"},
        enable_hierarchical_cache=True,
        hicache_ratio=2.0,
        hicache_mem_layout="layer_first",
        hicache_storage_backend="mooncake",
    ),
    Case(hicache_layout, "ValueError", enable_hierarchical_cache=True),
    Case(hicache_layout, "NotImplementedError", enable_hierarchical_cache=True, hicache_ratio=2.0, dcp_size=2),
    Case(hicache_layout, {}, hicache_mem_layout="page_first_direct"),
    Case(cache_exclusions, "ValueError", enable_hierarchical_cache=True, disable_radix_cache=True),
    Case(cache_exclusions, "ValueError", swa_full_tokens_ratio=0.0),
    Case(cache_exclusions, "ValueError", disaggregation_decode_retraction_backup="host_pool"),
    Case(cache_exclusions, {}, enable_hierarchical_cache=True),
    Case(
        page_major_layout,
        {"enable_page_major_kv_layout": True},
        enable_unified_memory=True,
        attention_backend="triton",
    ),
    Case(page_major_layout, "AssertionError", enable_page_major_kv_layout=True, attention_backend="triton"),
    Case(page_major_layout, "AssertionError", enable_unified_memory=True, attention_backend="aiter"),
    Case(page_major_layout, {}),
    Case(
        unified_pool,
        {"cuda_graph_config": with_phase(PLAN, "prefill", backend="disabled")},
        enable_unified_memory=True,
    ),
    Case(unified_pool, "ValueError", enable_unified_memory=True, cuda_graph_backend_prefill="full"),
    Case(unified_pool, "AssertionError", enable_unified_memory=True, speculative_algorithm="EAGLE"),
    Case(unified_pool, {}),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
