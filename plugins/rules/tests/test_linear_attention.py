"""Cases of the rules in sgl_rules.linear_attention: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.linear_attention import (
    linear_attention_checks,
    linear_attention_kernels,
    state_cache,
    state_cache_limits,
    state_kernels,
)

NO_BUFFER = {"uses_mamba_radix_cache": True, "mamba_radix_cache_strategy": "no_buffer"}

CASES = (
    Case(
        state_cache,
        {"uses_mamba_radix_cache": True, "mamba_radix_cache_strategy": "extra_buffer"},
        model="Qwen3NextForCausalLM",
    ),
    Case(
        state_cache,
        {
            "uses_mamba_radix_cache": True,
            "mamba_radix_cache_strategy": "no_buffer",
            "disable_overlap_schedule": True,
        },
        model="ZayaForCausalLM",
    ),
    Case(
        state_cache, {"uses_mamba_radix_cache": True}, model="ZayaForCausalLM", mamba_radix_cache_strategy="no_buffer"
    ),
    Case(state_cache, {}, model="Qwen3NextForCausalLM", disable_radix_cache=True),
    Case(state_cache, {}),
    Case(state_cache_limits, "AssertionError", model="ZayaForCausalLM", decided=NO_BUFFER, page_size=64),
    Case(state_cache_limits, "AssertionError", model="ZayaForCausalLM", decided=NO_BUFFER),
    Case(
        state_cache_limits,
        "AssertionError",
        machine="mps",
        model="Qwen3NextForCausalLM",
        decided={**NO_BUFFER, "mamba_radix_cache_strategy": "extra_buffer"},
    ),
    Case(
        state_cache_limits,
        "AssertionError",
        model="Qwen3NextForCausalLM",
        page_size=48,
        decided={**NO_BUFFER, "mamba_radix_cache_strategy": "extra_buffer"},
    ),
    Case(state_cache_limits, {}, model="ZayaForCausalLM", decided=NO_BUFFER, disable_overlap_schedule=True),
    Case(state_kernels, "ValueError", mamba_cache_philox_rounds=-1),
    Case(state_kernels, "ValueError", enable_mamba_cache_stochastic_rounding=True),
    Case(state_kernels, "ValueError", machine="rocm", mamba_backend="flashinfer"),
    Case(state_kernels, "ValueError", enable_int8_mamba_checkpoint=True, enable_hierarchical_cache=True),
    Case(state_kernels, {}, mamba_backend="flashinfer"),
    Case(
        linear_attention_kernels,
        {"linear_attn_decode_backend": "flashinfer"},
        machine="sm100",
        mamba_ssm_dtype="bfloat16",
    ),
    Case(linear_attention_kernels, {"linear_attn_decode_backend": "triton"}, linear_attn_backend="flashkda"),
    Case(linear_attention_kernels, "ValueError", linear_attn_decode_backend="flashkda"),
    Case(linear_attention_kernels, "ValueError", machine="sm100", linear_attn_backend="flashinfer"),
    Case(
        linear_attention_kernels,
        {"mamba_ssm_dtype": "float32"},
        enable_linear_replayssm_spec=True,
    ),
    Case(linear_attention_kernels, {}),
    Case(linear_attention_checks, "ValueError", enable_linear_replayssm=True, linear_attn_backend="flashinfer"),
    Case(linear_attention_checks, "ValueError", enable_linear_replayssm_spec=True, speculative_eagle_topk=4),
    Case(linear_attention_checks, {}, enable_linear_replayssm=True),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
