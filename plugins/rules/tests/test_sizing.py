"""Cases of the rules in sgl_rules.sizing: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.graph_plan import Plan, decode_sizes, default_plan, prefill_sizes, with_phase
from sgl_rules.sizing import TIERS, UNKNOWN_MEMORY, sizes_by_memory, static_memory, tier_of, vision_factor


def sized(prefill: int, decode: int) -> Plan:
    plan = with_phase(default_plan(MACHINES["sm90"]), "prefill", max_bs=prefill, bs=prefill_sizes(prefill))
    sizes = decode_sizes(decode, padding=True, speculative=False)
    return with_phase(plan, "decode", max_bs=decode, bs=sizes)


SIZED = {"cuda_graph_config": sized(8192, 256)}
MEMORY = 80 * 1024.0
RESERVED = max(512 + 8192 * 1.5 + 1 / 8 * 1024 + 256 * 2 + len(prefill_sizes(8192)) * 8, 10 * 1024)
SM90_SHARE = round((MEMORY - RESERVED) / MEMORY, 3)


@pytest.mark.parametrize(("gib", "chunk"), [(16, 2048), (24, 2048), (48, 4096), (80, 8192), (141, 8192), (192, 16384)])
def test_chunk_grows_with_memory(gib: int, chunk: int) -> None:
    assert tier_of(gib * 1024.0).chunk == chunk


def test_tiers_are_ordered_and_memory_may_be_unknown() -> None:
    limits = [tier.below_mib for tier in TIERS]
    assert limits == sorted(limits)
    assert tier_of(None) is UNKNOWN_MEMORY


@pytest.mark.parametrize(
    ("tower", "factor"),
    [({}, 0.95), ({"num_hidden_layers": 2, "hidden_size": 64}, 0.9975), ({"hidden_size": 4096}, 0.76)],
)
def test_vision_towers_shrink_the_share(tower: dict[str, int], factor: float, registries: Registries) -> None:
    text = {"num_attention_heads": 8, "hidden_size": 64}
    case = Case(static_memory, {}, config={"vision_config": tower, "text_config": text})
    view = case.view(registries)
    assert vision_factor(view, case.model) == pytest.approx(factor)


def test_text_models_have_no_vision_factor(registries: Registries) -> None:
    case = Case(static_memory, {})
    assert vision_factor(case.view(registries), case.model) is None


CASES = (
    Case(sizes_by_memory, {"chunked_prefill_size": 8192, "cuda_graph_config": sized(8192, 256)}),
    Case(sizes_by_memory, {"chunked_prefill_size": 8192, "cuda_graph_config": sized(8192, 512)}, tp_size=8),
    Case(sizes_by_memory, {"cuda_graph_config": sized(4096, 256)}, chunked_prefill_size=4096),
    Case(
        sizes_by_memory,
        {"chunked_prefill_size": 8192, "cuda_graph_config": sized(2048, 256)},
        model="DeepseekV3ForCausalLM",
    ),
    Case(sizes_by_memory, {}, chunked_prefill_size=8192, decided={"cuda_graph_config": sized(8192, 256)}),
    Case(static_memory, {"mem_fraction_static": SM90_SHARE}, chunked_prefill_size=8192, decided=SIZED),
    Case(static_memory, {"mem_fraction_static": 0.88}, machine="mps"),
    Case(
        static_memory,
        {"mem_fraction_static": SM90_SHARE * 0.95},
        chunked_prefill_size=8192,
        config={"vision_config": {}, "text_config": {"num_attention_heads": 8, "hidden_size": 64}},
        decided=SIZED,
    ),
    Case(static_memory, {}, mem_fraction_static=0.5),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
