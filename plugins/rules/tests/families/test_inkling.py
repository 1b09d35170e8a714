"""Cases of the rules in sgl_rules.families.inkling: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.inkling import full_prefill_graph, inkling_memory, muse_fp4, small_prefill_graph

INK = "InklingForConditionalGeneration"
MUSE = "MuseGlimmerForCausalLM"

CASES = (
    Case(full_prefill_graph, {"cuda_graph_backend_prefill": "full"}, model=INK),
    Case(full_prefill_graph, {}, model=INK, disable_prefill_cuda_graph=True),
    Case(small_prefill_graph, {"cuda_graph_max_bs_prefill": 512}, model=MUSE),
    Case(small_prefill_graph, {}, model=MUSE, cuda_graph_max_bs_prefill=64),
    Case(muse_fp4, {"fp4_gemm_runner_backend": "marlin"}, machine="sm120", model=MUSE),
    Case(muse_fp4, {}, model=MUSE),
    Case(
        inkling_memory,
        {
            "swa_full_tokens_ratio": 0.1,
            "mamba_full_memory_ratio": 0.1,
            "mamba_radix_cache_strategy": "extra_buffer",
            "attention_backend": "triton",
        },
        model=INK,
    ),
    Case(
        inkling_memory,
        {},
        model=INK,
        swa_full_tokens_ratio=0.2,
        mamba_full_memory_ratio=0.2,
        mamba_radix_cache_strategy="no_buffer",
        attention_backend="fa4",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
