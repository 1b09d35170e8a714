"""Cases of the rules in sgl_rules.speculative_drafts: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.speculative_drafts import dflash_drafts, dspark_drafts, eagle_drafts, frozen_key_drafts

CASES = (
    Case(
        eagle_drafts,
        {
            "max_running_requests": 48,
            "speculative_num_steps": 5,
            "speculative_eagle_topk": 4,
            "speculative_num_draft_tokens": 8,
        },
        speculative_algorithm="EAGLE",
        page_size=1,
    ),
    Case(
        eagle_drafts,
        {
            "max_running_requests": 48,
            "speculative_draft_model_path": "models/m",
            "speculative_num_steps": 3,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": 4,
        },
        model="DeepseekV3ForCausalLM",
        speculative_algorithm="EAGLE",
        page_size=64,
    ),
    Case(
        eagle_drafts,
        {"speculative_num_draft_tokens": 4},
        speculative_algorithm="EAGLE",
        max_running_requests=8,
        speculative_num_steps=3,
        speculative_eagle_topk=1,
        speculative_num_draft_tokens=16,
        page_size=1,
    ),
    Case(eagle_drafts, "AssertionError", speculative_algorithm="EAGLE", speculative_eagle_topk=4, page_size=1),
    Case(eagle_drafts, "ValueError", speculative_algorithm="EAGLE", page_size=16, attention_backend="trtllm_mla"),
    Case(eagle_drafts, "ValueError", speculative_algorithm="EAGLE", page_size=1, attention_backend="trtllm_mha"),
    Case(eagle_drafts, "ValueError", speculative_algorithm="STANDALONE", enable_dp_attention=True),
    Case(
        eagle_drafts,
        "NotImplementedError",
        speculative_algorithm="STANDALONE",
        speculative_use_rejection_sampling=True,
        page_size=1,
    ),
    Case(eagle_drafts, {}, speculative_algorithm="NGRAM"),
    Case(
        frozen_key_drafts,
        {"max_running_requests": 48, "enable_mixed_chunk": False},
        speculative_algorithm="FROZEN_KV_MTP",
        enable_mixed_chunk=True,
    ),
    Case(frozen_key_drafts, {}, speculative_algorithm="EAGLE"),
    Case(
        dflash_drafts,
        {
            "speculative_num_steps": 1,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": 8,
            "speculative_draft_attention_backend": "fa3",
            "max_running_requests": 48,
        },
        speculative_algorithm="DFLASH",
        speculative_draft_model_path="d",
        draft={"architectures": ["DFlashDraftModel"], "block_size": 8},
        decided={"attention_backend": "fa3"},
    ),
    Case(
        dflash_drafts,
        {"speculative_num_draft_tokens": 16, "speculative_draft_attention_backend": "triton"},
        machine="rocm",
        speculative_algorithm="DFLASH",
        speculative_draft_model_path="d",
        speculative_num_steps=1,
        speculative_eagle_topk=1,
        max_running_requests=4,
        attention_backend="aiter",
    ),
    Case(dflash_drafts, "ValueError", speculative_algorithm="DFLASH"),
    Case(dflash_drafts, "ValueError", machine="xpu", speculative_algorithm="DFLASH", speculative_draft_model_path="d"),
    Case(dflash_drafts, {}, speculative_algorithm="EAGLE"),
    Case(
        dspark_drafts,
        {
            "speculative_num_steps": 1,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": 8,
            "max_running_requests": 48,
        },
        speculative_algorithm="DSPARK",
        speculative_draft_model_path="d",
    ),
    Case(dspark_drafts, "ValueError", speculative_algorithm="DSPARK"),
    Case(
        dspark_drafts,
        "ValueError",
        speculative_algorithm="DSPARK",
        speculative_draft_model_path="d",
        speculative_dspark_block_size=4,
        speculative_num_draft_tokens=9,
    ),
    Case(dspark_drafts, {}, speculative_algorithm="EAGLE"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
