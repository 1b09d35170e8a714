"""Cases of the rules in sgl_rules.tasks: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.graph_plan import default_plan, prefill_sizes, with_phase, without_graphs
from sgl_rules.tasks import embedding_models, prefix_lm_whole

PLAN = default_plan(MACHINES["sm90"])

CASES = (
    Case(
        prefix_lm_whole,
        {
            "attention_backend": "triton",
            "chunked_prefill_size": -1,
            "disable_radix_cache": True,
            "disable_cuda_graph": True,
            "cuda_graph_config": without_graphs(PLAN),
        },
        model="HrmTextForCausalLM",
        attention_backend="fa3",
    ),
    Case(prefix_lm_whole, {}, attention_backend="fa3"),
    Case(embedding_models, {"is_embedding": True}, model="BertModel"),
    Case(
        embedding_models,
        {
            "is_embedding": True,
            "disable_radix_cache": True,
            "chunked_prefill_size": -1,
            "enable_tokenizer_batch_encode": True,
            "prefill_only_disable_kv_cache": True,
            "cuda_graph_config": with_phase(
                with_phase(PLAN, "decode", backend="disabled"), "prefill", max_bs=32768, bs=prefill_sizes(32768)
            ),
        },
        model="Gemma3TextModel",
        config={"model_type": "gemma3_text", "use_bidirectional_attention": True},
    ),
    Case(embedding_models, {}),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
