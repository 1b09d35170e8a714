"""Cases of the rules in sgl_rules.hisparse: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.hisparse import hisparse_limits

V32 = "DeepseekV32ForCausalLM"
SPARSE = {"index_topk": 2048}

CASES = (
    Case(hisparse_limits, "AssertionError", enable_hisparse=True, disable_radix_cache=True),
    Case(hisparse_limits, "AssertionError", model=V32, config=SPARSE, enable_hisparse=True),
    Case(
        hisparse_limits,
        "ValueError",
        model=V32,
        config=SPARSE,
        enable_hisparse=True,
        disable_radix_cache=True,
        kv_cache_dtype="bfloat16",
        dsa_decode_backend="fa3",
    ),
    Case(
        hisparse_limits,
        "ValueError",
        machine="rocm",
        model="DeepseekV4ForCausalLM",
        enable_hisparse=True,
        disable_radix_cache=True,
        env={"SGLANG_HACK_FLASHMLA_BACKEND": "unified_kv_triton"},
    ),
    Case(
        hisparse_limits,
        {},
        model=V32,
        config=SPARSE,
        enable_hisparse=True,
        disable_radix_cache=True,
        kv_cache_dtype="fp8_e4m3",
        dsa_decode_backend="flashmla_kv",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
