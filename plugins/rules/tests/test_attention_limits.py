"""Cases of the rules in sgl_rules.attention_limits: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.attention_limits import (
    fa4_pages,
    intel_xpu_pages,
    kernel_pages,
    latent_kernel_limits,
    multi_item_scoring,
    phase_kernel_checks,
)
from sgl_rules.graph_plan import default_plan, without_graphs

PLAN = default_plan(MACHINES["sm90"])

CASES = (
    Case(kernel_pages, {"page_size": 64}, attention_backend="flashmla"),
    Case(kernel_pages, {"page_size": 128}, decode_attention_backend="cutlass_mla"),
    Case(kernel_pages, {"page_size": 64}, attention_backend="trtllm_mla", page_size=128),
    Case(kernel_pages, {"page_size": 64}, prefill_attention_backend="trtllm_mha"),
    Case(kernel_pages, {"page_size": 64}, speculative_draft_attention_backend="trtllm_mha", page_size=1),
    Case(kernel_pages, {}, attention_backend="trtllm_mla", page_size=32),
    Case(kernel_pages, {}, attention_backend="triton", page_size=7),
    Case(latent_kernel_limits, "ValueError", attention_backend="trtllm_mla"),
    Case(
        latent_kernel_limits, "ValueError", machine="sm100", attention_backend="trtllm_mla", kv_cache_dtype="fp8_e5m2"
    ),
    Case(latent_kernel_limits, "ValueError", machine="sm100", attention_backend="tokenspeed_mla"),
    Case(latent_kernel_limits, "AssertionError", machine="sm100", prefill_attention_backend="cutedsl_mla"),
    Case(latent_kernel_limits, "ValueError", machine="sm120", decode_attention_backend="cutedsl_mla"),
    Case(
        latent_kernel_limits,
        {"prefill_attention_backend": "trtllm_mla"},
        machine="sm100",
        decode_attention_backend="cutedsl_mla",
    ),
    Case(latent_kernel_limits, {}, machine="sm100", attention_backend="trtllm_mla"),
    Case(phase_kernel_checks, "ValueError", machine="sm80", attention_backend="trtllm_mha"),
    Case(phase_kernel_checks, "ValueError", machine="sm120", attention_backend="trtllm_mha", kv_cache_dtype="fp8_e4m3"),
    Case(phase_kernel_checks, "ValueError", attention_backend="trtllm_mha", attn_cp_size=2),
    Case(phase_kernel_checks, {}, machine="sm100", attention_backend="trtllm_mha", attn_cp_size=2),
    Case(fa4_pages, {"page_size": 128}, machine="sm100", attention_backend="fa4"),
    Case(fa4_pages, {}, attention_backend="fa4"),
    Case(fa4_pages, {}, machine="sm100", attention_backend="fa4", speculative_eagle_topk=4),
    Case(intel_xpu_pages, {"page_size": 128}, machine="xpu", attention_backend="intel_xpu", page_size=1),
    Case(intel_xpu_pages, "ValueError", machine="xpu", model="DeepseekV3ForCausalLM", attention_backend="intel_xpu"),
    Case(intel_xpu_pages, {}, machine="xpu", attention_backend="intel_xpu", page_size=64),
    Case(multi_item_scoring, "AssertionError", enable_mis=True, attention_backend="fa3"),
    Case(
        multi_item_scoring,
        {"cuda_graph_config": without_graphs(PLAN), "disable_radix_cache": True, "chunked_prefill_size": -1},
        enable_mis=True,
        attention_backend="flashinfer",
        chunked_prefill_size=8192,
    ),
    Case(multi_item_scoring, {}, attention_backend="fa3"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
