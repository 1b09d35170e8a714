"""Cases of the rules in sgl_rules.context_parallel: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.context_parallel import (
    context_features,
    context_parallel_sizes,
    decode_cp_request,
    prefill_cp_flags,
    prefill_cp_flags_again,
)

CASES = (
    Case(
        prefill_cp_flags,
        {
            "enable_prefill_cp": True,
            "cp_strategy": "zigzag",
            "enable_prefill_context_parallel": True,
            "dsa_prefill_cp_mode": "in-seq-split",
            "prefill_cp_mode": "in-seq-split",
        },
        enable_prefill_context_parallel=True,
    ),
    Case(
        prefill_cp_flags,
        {
            "enable_prefill_context_parallel": True,
            "dsa_prefill_cp_mode": "round-robin-split",
            "prefill_cp_mode": "round-robin-split",
        },
        enable_prefill_cp=True,
        cp_strategy="interleave",
    ),
    Case(prefill_cp_flags, {}),
    Case(
        prefill_cp_flags_again,
        {
            "enable_dsa_prefill_context_parallel": True,
            "enable_prefill_context_parallel": False,
            "dsa_prefill_cp_mode": "in-seq-split",
            "prefill_cp_mode": "in-seq-split",
        },
        enable_prefill_cp=True,
        cp_strategy="zigzag",
        attention_backend="dsa",
    ),
    Case(prefill_cp_flags_again, {}, attention_backend="dsa"),
    Case(decode_cp_request, "ValueError", dcp_size=0),
    Case(decode_cp_request, "ValueError", dcp_comm_backend="a2a"),
    Case(decode_cp_request, "ValueError", machine="rocm", dcp_comm_backend="fi_a2a", dcp_size=2),
    Case(decode_cp_request, "ValueError", dcp_replicate_q_proj=True, dcp_size=2),
    Case(decode_cp_request, {}, dcp_replicate_q_proj=True, dcp_size=2, dcp_comm_backend="a2a"),
    Case(context_parallel_sizes, "ValueError", enable_prefill_cp=True),
    Case(context_parallel_sizes, "AssertionError", attn_cp_size=3, tp_size=8),
    Case(context_parallel_sizes, "AssertionError", attn_cp_size=2, moe_dp_size=4, tp_size=8),
    Case(context_parallel_sizes, "AssertionError", moe_dp_size=2, tp_size=8, ep_size=2),
    Case(
        context_parallel_sizes,
        "ValueError",
        model="MiMoV2FlashForCausalLM",
        enable_prefill_cp=True,
        cp_strategy="interleave",
    ),
    Case(
        context_parallel_sizes,
        {},
        model="Qwen3MoeForCausalLM",
        expected_env={"SGLANG_ENABLE_CP_V2": "True"},
    ),
    Case(context_parallel_sizes, {}, attn_cp_size=2, tp_size=8),
    Case(context_features, "ValueError", enable_dsa_cache_layer_split=True),
    Case(context_features, "ValueError", enable_cp_decode_attn_tp=True),
    Case(context_features, {}, model="GlmMoeDsaForCausalLM", enable_cp_decode_attn_tp=True),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
