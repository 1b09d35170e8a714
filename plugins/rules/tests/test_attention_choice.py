"""Cases of the rules in sgl_rules.attention_choice: each acts somewhere and does not elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.attention_choice import (
    aiter_workspace,
    attention_default,
    deterministic_attention,
    deterministic_kernels,
    dual_chunk_caches,
    fa3_without_e5m2,
    tiles_missing,
    uncaptured_backends,
)
from sgl_rules.graph_plan import default_plan, without_graphs

PLAN = default_plan(MACHINES["sm90"])
DUAL = {"dual_chunk_attention_config": {"chunk_size": 8192}}

CASES = (
    Case(
        deterministic_kernels,
        {"enable_deterministic_inference": True, "sampling_backend": "pytorch"},
        rl_on_policy_target="fsdp",
        expected_env={"SGLANG_VLM_CACHE_SIZE_MB": "0"},
    ),
    Case(
        deterministic_kernels,
        {"flashinfer_allreduce_fusion_backend": None, "enable_aiter_allreduce_fusion": False},
        enable_deterministic_inference=True,
        flashinfer_allreduce_fusion_backend="auto",
        enable_aiter_allreduce_fusion=True,
        sampling_backend="ascend",
    ),
    Case(deterministic_kernels, {}),
    Case(deterministic_attention, {"attention_backend": "fa3"}, enable_deterministic_inference=True),
    Case(
        deterministic_attention,
        {"attention_backend": "flashinfer", "disable_radix_cache": True, "disable_custom_all_reduce": True},
        machine="sm100",
        tp_size=2,
        enable_deterministic_inference=True,
        expected_env={"NCCL_ALGO": "allreduce:tree", "NCCL_MIN_NCHANNELS": "8", "NCCL_MAX_NCHANNELS": "8"},
    ),
    Case(
        deterministic_attention,
        {"attention_backend": "triton"},
        machine="sm120",
        model="DeepseekV3ForCausalLM",
        enable_deterministic_inference=True,
    ),
    Case(deterministic_attention, "ValueError", enable_deterministic_inference=True, attention_backend="aiter"),
    Case(
        deterministic_attention,
        "ValueError",
        model="DeepseekV3ForCausalLM",
        enable_deterministic_inference=True,
        attention_backend="flashinfer",
    ),
    Case(deterministic_attention, {}),
    Case(attention_default, {"attention_backend": "fa3"}),
    Case(attention_default, {"attention_backend": "trtllm_mha"}, machine="sm100"),
    Case(attention_default, {"attention_backend": "fa4"}, machine="sm100", config={"v_head_dim": 64}),
    Case(attention_default, {"attention_backend": "flashinfer"}, machine="sm100", speculative_algorithm="EAGLE"),
    Case(attention_default, {"attention_backend": "flashinfer"}, speculative_eagle_topk=4),
    Case(attention_default, {"attention_backend": "triton"}, machine="sm80", model="GptOssForCausalLM"),
    Case(attention_default, {"attention_backend": "aiter"}, machine="rocm"),
    Case(attention_default, {"attention_backend": "torch_native"}, machine="mps"),
    Case(attention_default, {"attention_backend": "triton"}, machine="musa"),
    Case(attention_default, {"attention_backend": "flashinfer"}, machine="sm100", model="KimiLinearForCausalLM"),
    Case(attention_default, {"attention_backend": "triton"}, machine="rocm", model="KimiLinearForCausalLM"),
    Case(
        attention_default,
        {"attention_backend": "aiter"},
        machine="rocm",
        model="KimiLinearForCausalLM",
        config={"num_key_value_heads": 128},
        tp_size=8,
    ),
    Case(
        attention_default,
        {"attention_backend": "triton"},
        prefill_attention_backend="triton",
        decode_attention_backend="triton",
    ),
    Case(attention_default, {}, attention_backend="triton"),
    Case(
        uncaptured_backends,
        {"cuda_graph_config": without_graphs(PLAN)},
        attention_backend="torch_native",
    ),
    Case(uncaptured_backends, "AssertionError", attention_backend="flex_attention", speculative_algorithm="EAGLE"),
    Case(uncaptured_backends, {"disable_radix_cache": True}, model="WhisperForConditionalGeneration"),
    Case(uncaptured_backends, {}, attention_backend="triton"),
    Case(fa3_without_e5m2, {"attention_backend": "triton"}, attention_backend="fa3", kv_cache_dtype="fp8_e5m2"),
    Case(fa3_without_e5m2, {}, attention_backend="fa3", kv_cache_dtype="fp8_e4m3"),
    Case(
        aiter_workspace,
        {"mem_fraction_static": 0.8 * 0.85},
        attention_backend="aiter",
        decided={"mem_fraction_static": 0.8},
    ),
    Case(
        aiter_workspace,
        {},
        attention_backend="aiter",
        mem_fraction_static=0.8,
        env={"SGLANG_AITER_HONOR_EXPLICIT_MEM_FRACTION": "1"},
    ),
    Case(aiter_workspace, {}, attention_backend="triton", mem_fraction_static=0.8),
    Case(tiles_missing, {"attention_backend": "torch_native"}, machine="cpu", attention_backend="intel_amx"),
    Case(
        tiles_missing,
        {"attention_backend": "triton"},
        machine=replace(MACHINES["xpu"], features=frozenset()),
        attention_backend="intel_xpu",
    ),
    Case(tiles_missing, {}, machine="amx", attention_backend="intel_amx"),
    Case(dual_chunk_caches, "ValueError", config=DUAL, attention_backend="fa3"),
    Case(
        dual_chunk_caches,
        {"enable_mixed_chunk": False, "disable_radix_cache": True},
        config=DUAL,
        attention_backend="dual_chunk_flash_attn",
        enable_mixed_chunk=True,
    ),
    Case(dual_chunk_caches, {}, attention_backend="fa3"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
