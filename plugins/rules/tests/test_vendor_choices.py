"""A vendor's choice takes part in the rules by what its spec states, without a line of ours."""

from __future__ import annotations

import pytest

from sgl_core.api.specs import AttentionSpec, MoeRunnerSpec, Spec
from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.attention_choice import deterministic_attention
from sgl_rules.attention_limits import kernel_pages
from sgl_rules.moe import runner_for_format
from sgl_rules.moe_dispatch import dispatcher_ranks

CASES = (
    Case(kernel_pages, {"page_size": 48}, attention_backend="vendor_attention", page_size=1),
    Case(kernel_pages, {}, attention_backend="vendor_attention", page_size=96),
    Case(
        deterministic_attention,
        {"disable_radix_cache": True},
        enable_deterministic_inference=True,
        attention_backend="vendor_attention",
    ),
    Case(runner_for_format, {}, quantization="mxfp8", moe_runner_backend="vendor_runner"),
    Case(dispatcher_ranks, {"ep_size": 4}, moe_a2a_backend="vendor_dispatcher", tp_size=4),
)


@pytest.fixture(scope="module")
def with_vendor() -> Registries:
    found = Registries.discover()
    found["attention"].add(
        AttentionSpec(
            name="vendor_attention",
            page_sizes=(48, 96),
            preferred_page_size=48,
            flags=frozenset({"deterministic"}),
        ),
        "vendor",
    )
    found["moe_runners"].add(MoeRunnerSpec(name="vendor_runner", flags=frozenset({"mxfp8"})), "vendor")
    found["moe_dispatchers"].add(Spec(name="vendor_dispatcher", flags=frozenset({"spans_group"})), "vendor")
    return found


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, with_vendor: Registries) -> None:
    case.check(with_vendor)
