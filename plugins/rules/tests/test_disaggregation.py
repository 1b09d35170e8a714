"""Cases of the rules in sgl_rules.disaggregation: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.disaggregation import encoder_roles, infiniband_devices, load_balance, prefill_decode_roles

CASES = (
    Case(
        prefill_decode_roles,
        {"disable_radix_cache": True, "disaggregation_decode_extra_slots": 0},
        disaggregation_mode="decode",
    ),
    Case(
        prefill_decode_roles,
        {"disable_radix_cache": True, "disaggregation_decode_extra_slots": 16},
        disaggregation_mode="decode",
        max_running_requests=8,
    ),
    Case(
        prefill_decode_roles,
        {"disable_radix_cache": False, "disaggregation_decode_extra_slots": 0},
        disaggregation_mode="decode",
        disaggregation_decode_enable_radix_cache=True,
    ),
    Case(
        prefill_decode_roles,
        "ValueError",
        disaggregation_mode="decode",
        disaggregation_decode_enable_radix_cache=True,
        speculative_algorithm="EAGLE",
    ),
    Case(
        prefill_decode_roles,
        "AssertionError",
        disaggregation_mode="prefill",
        disaggregation_transfer_backend="fake",
    ),
    Case(
        prefill_decode_roles,
        {"disaggregation_transfer_backend": "mooncake", "disaggregation_ib_device": None},
        disaggregation_transfer_backend="mooncake_tcp",
        expected_env={"MC_FORCE_TCP": "1"},
    ),
    Case(prefill_decode_roles, {}),
    Case(load_balance, {"load_balance_method": "round_robin"}),
    Case(load_balance, {"load_balance_method": "follow_bootstrap_room"}, disaggregation_mode="prefill"),
    Case(load_balance, {}, load_balance_method="total_tokens"),
    Case(load_balance, "ValueError", disaggregation_mode="both"),
    Case(encoder_roles, {"encoder_transfer_backend": "zmq_to_scheduler"}),
    Case(
        encoder_roles,
        {"encoder_transfer_backend": "zmq_to_tokenizer"},
        model="KimiK3ForConditionalGeneration",
        tp_size=8,
    ),
    Case(encoder_roles, "ValueError", encoder_only=True),
    Case(encoder_roles, "ValueError", language_model_only=True),
    Case(encoder_roles, "ValueError", encoder_only=True, language_only=True),
    Case(encoder_roles, {}, encoder_transfer_backend="mooncake"),
    Case(infiniband_devices, "RuntimeError", disaggregation_mode="decode", disaggregation_ib_device="mlx5_0"),
    Case(infiniband_devices, {}, disaggregation_ib_device="mlx5_0"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
