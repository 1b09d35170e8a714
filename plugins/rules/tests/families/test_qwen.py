"""Cases of the rules in sgl_rules.families.qwen: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.qwen import hybrid_attention, mobius_experts, qwen_experts, qwen_vl_unified_pages

NEXT = "Qwen3NextForCausalLM"

CASES = (
    Case(mobius_experts, {"moe_runner_backend": "triton_kernel"}, model="InternS2MobiusForConditionalGeneration"),
    Case(mobius_experts, "ValueError", model="InternS2MobiusForConditionalGeneration", pp_size=2),
    Case(mobius_experts, {}, model="InternS2MobiusForConditionalGeneration", moe_runner_backend="triton"),
    Case(hybrid_attention, {"attention_backend": "triton", "page_size": 1}, machine="sm100", model=NEXT),
    Case(
        hybrid_attention,
        {"attention_backend": "trtllm_mha", "page_size": 64},
        machine="sm100",
        model=NEXT,
        disable_radix_cache=True,
    ),
    Case(hybrid_attention, {}, machine="sm100", model=NEXT, attention_backend="flashinfer"),
    Case(hybrid_attention, {}, model=NEXT),
    Case(qwen_experts, {"moe_runner_backend": "flashinfer_trtllm"}, machine="sm100", model="Qwen3MoeForCausalLM"),
    Case(
        qwen_experts,
        {"quantization": "awq"},
        machine="sm100",
        model="Qwen3MoeForCausalLM",
        config={"quantization_config": {"quant_method": "awq"}},
    ),
    Case(qwen_experts, {}, model="Qwen3MoeForCausalLM"),
    Case(
        qwen_vl_unified_pages,
        {"page_size": 16},
        machine="rocm",
        model="Qwen3VLForConditionalGeneration",
        env={"SGLANG_USE_AITER_UNIFIED_ATTN": "1"},
    ),
    Case(qwen_vl_unified_pages, {}, machine="rocm", model="Qwen3VLForConditionalGeneration"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
