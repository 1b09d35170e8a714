"""Cases of the rules in sgl_rules.processes: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.processes import core_dumps, layernorm_sequence_parallel, optimistic_prefill, worker_environment

CORE_DUMP_ENV = (
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
    "CUDA_ENABLE_USER_TRIGGERED_COREDUMP",
    "CUDA_COREDUMP_SHOW_PROGRESS",
    "CUDA_COREDUMP_GENERATION_FLAGS",
    "CUDA_COREDUMP_PIPE",
)

PLAIN_ENV = {
    "SGLANG_ENABLE_TORCH_COMPILE": "0",
    "SGLANG_DISABLE_OUTLINES_DISK_CACHE": "0",
    "SGLANG_ENABLE_DETERMINISTIC_INFERENCE": "0",
}

CASES = (
    Case(layernorm_sequence_parallel, "ValueError", enable_layernorm_sp=True, tp_size=2),
    Case(layernorm_sequence_parallel, {}, model="Qwen3ForCausalLM", enable_layernorm_sp=True, tp_size=2),
    Case(worker_environment, "ValueError", enable_deepseek_v4_fp4_indexer=True),
    Case(worker_environment, {}, machine="sm100", enable_deepseek_v4_fp4_indexer=True),
    Case(worker_environment, {"debug_cuda_graph": False}, machine="xpu", debug_cuda_graph=True),
    Case(
        worker_environment,
        {},
        enable_torch_compile=True,
        mamba_ssm_dtype="float32",
        expected_env={
            "SGLANG_ENABLE_TORCH_COMPILE": "1",
            "SGLANG_DISABLE_OUTLINES_DISK_CACHE": "0",
            "SGLANG_ENABLE_DETERMINISTIC_INFERENCE": "0",
            "SGLANG_MAMBA_SSM_DTYPE": "float32",
            "SGLANG_OPT_FP8_WO_A_GEMM": "False",
        },
    ),
    Case(
        core_dumps,
        {},
        machine="cpu",
        crash_dump_folder="/crash",
        env=dict.fromkeys(CORE_DUMP_ENV, "set"),
        expected_env={"CUDA_COREDUMP_FILE": "/crash/%h/core.cuda.%t.%p"},
    ),
    Case(core_dumps, {}, expected_env={}),
    Case(
        optimistic_prefill,
        {"optimistic_prefill_attempts": 0},
        disaggregation_mode="prefill",
        pp_size=2,
        optimistic_prefill_attempts=1,
    ),
    Case(optimistic_prefill, {}, disaggregation_mode="prefill", optimistic_prefill_attempts=1),
    Case(worker_environment, {}, machine="sm100", expected_env=PLAIN_ENV),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
