"""Cases of the rules in sgl_rules.devices: each acts somewhere and does not elsewhere."""

from __future__ import annotations

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
from sgl_core.testing.rule_cases import RuleCase as Case
from sgl_rules.devices import (
    ascend_kernels,
    cpu_kernels,
    gaudi_kernels,
    metal_without_overlap,
    rocm_kv_splits,
    sampling_default,
    symmetric_memory_support,
    xpu_decode_graphs,
)
from sgl_rules.graph_plan import default_plan, with_phase

CASES = (
    Case(gaudi_kernels, {"attention_backend": "torch_native", "sampling_backend": "pytorch"}, machine="hpu"),
    Case(gaudi_kernels, {}),
    Case(cpu_kernels, {"attention_backend": "intel_amx", "sampling_backend": "pytorch"}, machine="amx"),
    Case(cpu_kernels, {"attention_backend": "torch_native", "sampling_backend": "pytorch"}, machine="arm"),
    Case(cpu_kernels, {}, machine="amx", attention_backend="torch_native", sampling_backend="pytorch"),
    Case(cpu_kernels, {}),
    Case(
        ascend_kernels,
        {
            "attention_backend": "ascend",
            "prefill_attention_backend": "ascend",
            "decode_attention_backend": "ascend",
            "page_size": 128,
            "chunked_prefill_size": 8192,
            "cuda_graph_config": with_phase(default_plan(MACHINES["npu"]), "decode", max_bs=256),
            "disable_custom_all_reduce": True,
            "hicache_io_backend": "kernel_ascend",
            "hicache_mem_layout": "page_first_direct",
        },
        machine="npu",
        tp_size=8,
        enable_hierarchical_cache=True,
        decided={"cuda_graph_config": default_plan(MACHINES["npu"])},
    ),
    Case(ascend_kernels, {}),
    Case(metal_without_overlap, {"disable_overlap_schedule": True}, machine="mps"),
    Case(metal_without_overlap, {}, machine="mlx"),
    Case(
        xpu_decode_graphs,
        {"cuda_graph_config": with_phase(default_plan(MACHINES["xpu"]), "decode", backend="disabled")},
        machine="xpu",
    ),
    Case(xpu_decode_graphs, {}, machine="xpu", cuda_graph_backend_decode="full"),
    Case(xpu_decode_graphs, {}),
    Case(symmetric_memory_support, {"enable_symm_mem": False}, machine="xpu", enable_symm_mem=True),
    Case(
        symmetric_memory_support,
        {},
        enable_symm_mem=True,
        expected_env={"SGLANG_SYMM_MEM_PREALLOC_GB_SIZE": "4"},
    ),
    Case(symmetric_memory_support, {}, machine="xpu"),
    Case(sampling_default, {"sampling_backend": "flashinfer"}),
    Case(sampling_default, {"sampling_backend": "pytorch"}, machine="rocm"),
    Case(sampling_default, {}, sampling_backend="pytorch"),
    Case(rocm_kv_splits, {"triton_attention_num_kv_splits": 16}, machine="rocm"),
    Case(rocm_kv_splits, {"pre_warm_nccl": False}, machine="cpu", pre_warm_nccl=True),
    Case(rocm_kv_splits, {}),
)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_answer(case: Case, registries: Registries) -> None:
    case.check(registries)
