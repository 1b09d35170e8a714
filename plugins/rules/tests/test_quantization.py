"""Cases of the rules in sgl_rules.quantization: each acts somewhere and does not elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sgl_core.config.model_info import model_info_from_config
from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.quantization import checkpoint_agrees, methods_on, quantize_first, served_method, weight_format

FP8 = {"quantization_config": {"quant_method": "fp8"}}
NVFP4 = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}
AWQ = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}}
GPTQ = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}}


@pytest.mark.parametrize(
    ("config", "machine", "asked", "method"),
    [
        ({}, "sm90", None, None),
        ({}, "sm90", "FP8", "fp8"),
        (FP8, "sm90", None, "fp8"),
        (NVFP4, "sm100", None, "modelopt_fp4"),
        (NVFP4, "sm100", "modelopt", "modelopt_fp4"),
        (AWQ, "sm90", None, "awq_marlin"),
        (AWQ, "sm90", "awq", "awq"),
        (AWQ, "rocm", None, "awq"),
        (AWQ, "sm90", "moe_wna16", "moe_wna16"),
        (GPTQ, "sm80", None, "gptq_marlin"),
        (FP8, "sm90", "humming", "humming"),
        (FP8, "rocm", "quark_mxfp4", "quark_mxfp4"),
    ],
)
def test_served_method(config: dict[str, object], machine: str, asked: str | None, method: str | None) -> None:
    model = model_info_from_config({"architectures": ["LlamaForCausalLM"], **config})
    assert served_method(asked, MACHINES[machine], model) == method


def test_methods_differ_by_platform() -> None:
    assert "mlx_q4" in methods_on(MACHINES["mps"]) - methods_on(MACHINES["sm90"])
    assert "mxfp4" in methods_on(MACHINES["sm90"]) - methods_on(MACHINES["rocm"])


CASES = (
    Case(quantize_first, "ValueError", quantize_and_serve=True),
    Case(quantize_first, "NotImplementedError", quantize_and_serve=True, quantization="modelopt_fp8"),
    Case(quantize_first, {}),
    Case(checkpoint_agrees, "ValueError", context_length=65536),
    Case(checkpoint_agrees, {}, context_length=65536, env={"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}),
    Case(checkpoint_agrees, "ValueError", dtype="int8"),
    Case(checkpoint_agrees, "ValueError", config=FP8, quantization="awq"),
    Case(checkpoint_agrees, "ValueError", machine="rocm", quantization="bitsandbytes"),
    Case(checkpoint_agrees, "ValueError", machine="xpu", config={"quantization_config": {"quant_method": "mxfp4"}}),
    Case(checkpoint_agrees, "NotImplementedError", machine="npu", config=FP8, quantization="moe_wna16"),
    Case(checkpoint_agrees, "ValueError", config={"quantization_config": {"bits": 4, "group_size": 64}}),
    Case(checkpoint_agrees, {}, machine="mlx", config={"quantization_config": {"bits": 4, "group_size": 64}}),
    Case(checkpoint_agrees, {}, config=NVFP4, quantization="fp8"),
    Case(checkpoint_agrees, {}, config=FP8, quantization="modelopt_fp4"),
    Case(checkpoint_agrees, {}, config=FP8),
    Case(
        weight_format,
        {"quantization": "gguf", "load_format": "gguf", "custom_weight_loader": []},
        model=replace(model_info_from_config({"architectures": ["LlamaForCausalLM"]}), load_format="gguf"),
    ),
    Case(weight_format, {"load_format": "auto", "custom_weight_loader": []}, load_format="remote_instance"),
    Case(weight_format, "ValueError", load_format="ipc_cache"),
    Case(weight_format, "ValueError", weight_cache_mode="client", speculative_algorithm="EAGLE"),
    Case(weight_format, {}, custom_weight_loader=["a.b"]),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
