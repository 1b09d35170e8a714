"""Cases of the rules in sgl_rules.families.deepseek: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.families.deepseek import (
    deepseek_attention,
    deepseek_context_parallel,
    deepseek_experts,
    deepseek_rocm_draft,
    mistral_large_dtype,
    sparse_cache_dtype,
    sparse_kernels,
    sparse_roles,
)
from sgl_rules.graph_plan import default_plan, with_phase

V3 = "DeepseekV3ForCausalLM"
V32 = "DeepseekV32ForCausalLM"
SPARSE = {"index_topk": 2048}
OFF = with_phase(default_plan(MACHINES["sm90"]), "prefill", backend="disabled")
FP8 = {"quantization_config": {"quant_method": "fp8"}}

CASES = (
    Case(deepseek_attention, {"attention_backend": "trtllm_mla"}, machine="sm100", model=V3),
    Case(deepseek_attention, {}, model=V3),
    Case(deepseek_attention, {"attention_backend": "dsa", "page_size": 64}, model=V32, config=SPARSE),
    Case(deepseek_attention, {"attention_backend": "dsa", "page_size": 1}, machine="gfx95", model=V32, config=SPARSE),
    Case(deepseek_attention, {"attention_backend": "dsa"}, machine="npu", model=V32, config=SPARSE),
    Case(
        deepseek_attention,
        {
            "enable_dp_attention": True,
            "moe_dense_tp_size": 1,
            "moe_a2a_backend": "deepep",
            "ep_size": 8,
            "attn_cp_size": 4,
        },
        model=V3,
        enable_prefill_cp=True,
        cp_strategy="zigzag",
        tp_size=8,
        dp_size=2,
    ),
    Case(
        deepseek_attention,
        "AssertionError",
        model=V32,
        config=SPARSE,
        enable_prefill_cp=True,
        cp_strategy="interleave",
        dp_size=2,
        tp_size=8,
    ),
    Case(deepseek_context_parallel, {"cuda_graph_config": OFF}, model=V3, enable_prefill_cp=True),
    Case(
        deepseek_context_parallel,
        "ValueError",
        model=V32,
        config={**SPARSE, "index_topk_freq": 2},
        enable_two_batch_overlap=True,
    ),
    Case(
        deepseek_context_parallel,
        {},
        model=V32,
        config=SPARSE,
        expected_env={"SGLANG_DSA_PREFILL_DENSE_ATTN_KV_LEN_THRESHOLD": "2048"},
    ),
    Case(deepseek_context_parallel, {}, model=V3),
    Case(sparse_cache_dtype, {"kv_cache_dtype": "bfloat16"}, model=V32, config=SPARSE),
    Case(sparse_cache_dtype, {"kv_cache_dtype": "fp8_e4m3"}, machine="sm120", model=V32, config=SPARSE),
    Case(sparse_cache_dtype, "AssertionError", model=V32, config=SPARSE, kv_cache_dtype="fp8_e5m2"),
    Case(sparse_cache_dtype, {}, model=V3),
    Case(
        sparse_kernels,
        {"dsa_prefill_backend": "flashmla_sparse", "dsa_decode_backend": "fa3"},
        model=V32,
        config=SPARSE,
        kv_cache_dtype="bfloat16",
    ),
    Case(
        sparse_kernels,
        {"dsa_prefill_backend": "trtllm", "dsa_decode_backend": "trtllm"},
        machine="sm100",
        model=V32,
        config=SPARSE,
        kv_cache_dtype="fp8_e4m3",
    ),
    Case(
        sparse_kernels,
        {"dsa_prefill_backend": "tilelang", "dsa_decode_backend": "tilelang"},
        machine="rocm",
        model=V32,
        config=SPARSE,
    ),
    Case(
        sparse_kernels,
        {"dsa_prefill_backend": "flashinfer_sparse_mla", "dsa_decode_backend": "flashinfer_sparse_mla"},
        machine="sm120",
        model="GlmMoeDsaForCausalLM",
        config=SPARSE,
        kv_cache_dtype="fp8_e4m3",
    ),
    Case(
        sparse_kernels,
        "ValueError",
        model=V32,
        config=SPARSE,
        kv_cache_dtype="fp8_e4m3",
        dsa_prefill_backend="tilelang",
    ),
    Case(sparse_kernels, {}, model=V3),
    Case(
        sparse_roles, "AssertionError", model=V32, config=SPARSE, enable_prefill_cp=True, disaggregation_mode="decode"
    ),
    Case(sparse_roles, "ValueError", model=V32, config=SPARSE, enable_dsa_cache_layer_split=True),
    Case(sparse_roles, {}, model=V3, enable_prefill_cp=True, disaggregation_mode="decode"),
    Case(
        deepseek_experts,
        {"quantization": "fp8", "moe_runner_backend": "flashinfer_trtllm"},
        machine="sm100",
        model=V3,
        config=FP8,
    ),
    Case(deepseek_experts, {"moe_runner_backend": "flashinfer_trtllm"}, machine="sm100", model=V3),
    Case(
        deepseek_experts,
        {"quantization": "fp8", "fp8_gemm_runner_backend": "flashinfer_trtllm"},
        machine="sm100",
        model="LongcatFlashForCausalLM",
        config=FP8,
    ),
    Case(deepseek_experts, {}, machine="sm100", model=V3, config=FP8, quantization="fp8", moe_a2a_backend="deepep"),
    Case(deepseek_experts, {}, model=V3, config=FP8),
    Case(
        deepseek_rocm_draft,
        {"speculative_moe_runner_backend": "triton", "speculative_moe_a2a_backend": "none"},
        machine="rocm",
        model=V3,
        quantization="modelopt_fp4",
        speculative_algorithm="EAGLE",
    ),
    Case(
        deepseek_rocm_draft,
        "ValueError",
        machine="rocm",
        model=V3,
        quantization="modelopt_fp4",
        speculative_algorithm="EAGLE",
        env={"SGLANG_NVFP4_CKPT_FP8_NEXTN_MOE": "1"},
    ),
    Case(deepseek_rocm_draft, {}, machine="rocm", model=V3),
    Case(mistral_large_dtype, {"dtype": "bfloat16"}, model="MistralLarge3ForCausalLM", dtype="float16"),
    Case(mistral_large_dtype, {}, model="MistralLarge3ForCausalLM", dtype="bfloat16"),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
