"""Cases of the rules in sgl_rules.speculative: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.speculative import adaptive_steps, algorithm_name, draft_defaults, ngram_drafts

CASES = (
    Case(draft_defaults, {"speculative_moe_runner_backend": "auto"}),
    Case(
        draft_defaults,
        {"speculative_draft_model_revision": "main", "speculative_moe_runner_backend": "triton"},
        speculative_draft_model_path="d",
        moe_runner_backend="triton",
    ),
    Case(draft_defaults, {}, speculative_moe_runner_backend="triton"),
    Case(algorithm_name, {"speculative_algorithm": "EAGLE"}, speculative_algorithm="nextn"),
    Case(
        algorithm_name,
        {"speculative_algorithm": "FROZEN_KV_MTP"},
        speculative_algorithm="NEXTN",
        draft={"architectures": ["Gemma4AssistantForCausalLM"]},
    ),
    Case(
        algorithm_name,
        "ValueError",
        speculative_algorithm="EAGLE3",
        draft={"architectures": ["Gemma4AssistantForCausalLM"]},
    ),
    Case(algorithm_name, "ValueError", speculative_algorithm="MAGIC"),
    Case(algorithm_name, "AssertionError", speculative_algorithm="NGRAM", speculative_skip_dp_mlp_sync=True),
    Case(algorithm_name, {}, speculative_algorithm="EAGLE"),
    Case(
        adaptive_steps,
        {"speculative_eagle_topk": 1, "speculative_num_steps": 3, "speculative_num_draft_tokens": 4},
        speculative_adaptive=True,
        speculative_algorithm="EAGLE",
    ),
    Case(adaptive_steps, {"speculative_adaptive": False}, speculative_adaptive=True, speculative_algorithm="NGRAM"),
    Case(
        adaptive_steps,
        "ValueError",
        speculative_adaptive=True,
        speculative_algorithm="EAGLE",
        speculative_num_steps=2,
    ),
    Case(adaptive_steps, {}, speculative_algorithm="EAGLE"),
    Case(
        ngram_drafts,
        {
            "max_running_requests": 48,
            "speculative_eagle_topk": 10,
            "speculative_num_draft_tokens": 12,
            "speculative_num_steps": 1,
        },
        speculative_algorithm="NGRAM",
        page_size=1,
    ),
    Case(ngram_drafts, "ValueError", machine="xpu", speculative_algorithm="NGRAM", page_size=1),
    Case(ngram_drafts, "ValueError", speculative_algorithm="NGRAM", page_size=16, attention_backend="fa3"),
    Case(ngram_drafts, {}, speculative_algorithm="EAGLE"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
