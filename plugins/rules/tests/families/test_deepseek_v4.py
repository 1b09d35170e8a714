"""Cases of the rules in sgl_rules.families.deepseek_v4: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.deepseek_v4 import v4_cache, v4_context_parallel, v4_kernels, v4_mega_moe_budget

V4 = "DeepseekV4ForCausalLM"

CASES = (
    Case(
        v4_kernels,
        {
            "attention_backend": "dsv4",
            "page_size": 256,
            "swa_full_tokens_ratio": 0.1,
            "moe_runner_backend": "flashinfer_mxfp4",
        },
        model=V4,
    ),
    Case(
        v4_kernels,
        {
            "attention_backend": "dsv4",
            "prefill_attention_backend": "dsv4",
            "decode_attention_backend": "dsv4",
            "page_size": 128,
        },
        machine="npu",
        model=V4,
        swa_full_tokens_ratio=0.5,
    ),
    Case(
        v4_kernels,
        {},
        model=V4,
        attention_backend="dsv4",
        page_size=256,
        swa_full_tokens_ratio=0.5,
        moe_runner_backend="triton",
    ),
    Case(v4_cache, {"kv_cache_dtype": "fp8_e4m3", "max_running_requests": 256}, model=V4),
    Case(v4_cache, {"kv_cache_dtype": "bfloat16"}, machine="npu", model=V4, max_running_requests=4),
    Case(v4_cache, "AssertionError", model=V4, kv_cache_dtype="bf16"),
    Case(v4_cache, "AssertionError", model=V4, speculative_algorithm="NGRAM"),
    Case(v4_cache, "AssertionError", model=V4, speculative_algorithm="EAGLE"),
    Case(v4_cache, {}, model=V4, kv_cache_dtype="fp8_e4m3", max_running_requests=4),
    Case(
        v4_context_parallel,
        {
            "enable_dsa_prefill_context_parallel": True,
            "enable_prefill_context_parallel": False,
            "dsa_prefill_cp_mode": "round-robin-split",
            "enable_dp_attention": True,
            "moe_dense_tp_size": 1,
            "attn_cp_size": 8,
        },
        model=V4,
        enable_prefill_cp=True,
        cp_strategy="interleave",
        tp_size=8,
    ),
    Case(v4_context_parallel, "ValueError", model=V4, enable_prefill_cp=True),
    Case(v4_context_parallel, "AssertionError", model=V4, enable_prefill_cp=True, cp_strategy="interleave", dp_size=2),
    Case(v4_context_parallel, {}, model=V4),
    Case(v4_mega_moe_budget, "ValueError", model=V4, moe_a2a_backend="megamoe", chunked_prefill_size=16384),
    Case(v4_mega_moe_budget, "ValueError", model=V4, moe_a2a_backend="megamoe", chunked_prefill_size=-1),
    Case(v4_mega_moe_budget, {}, model=V4, moe_a2a_backend="megamoe", chunked_prefill_size=8192, expected_env={}),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
