"""Cases of the rules in sgl_rules.media: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.media import media_in_one_chunk, media_transport

CASES = (
    Case(media_transport, {"mm_feature_transport": "cpu"}, expected_env={"SGLANG_USE_CUDA_IPC_TRANSPORT": "0"}),
    Case(
        media_transport,
        {"mm_feature_transport": "cuda_ipc", "keep_mm_feature_on_device": False},
        keep_mm_feature_on_device=True,
        expected_env={"SGLANG_USE_CUDA_IPC_TRANSPORT": "1"},
    ),
    Case(media_transport, {"mm_feature_transport": "cuda_ipc"}, env={"SGLANG_USE_CUDA_IPC_TRANSPORT": "1"}),
    Case(media_transport, "ValueError", machine="xpu", mm_feature_transport="cuda_ipc"),
    Case(media_transport, "ValueError", mm_feature_transport="cuda_ipc", nnodes=2),
    Case(media_transport, {}, mm_feature_transport="cpu"),
    Case(
        media_in_one_chunk,
        {"chunked_prefill_size": -1},
        model="MossVLForConditionalGeneration",
        config={"vision_config": {}, "text_config": {"num_attention_heads": 8, "hidden_size": 64}},
        chunked_prefill_size=8192,
    ),
    Case(media_in_one_chunk, {}, chunked_prefill_size=8192),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
