"""Mixture of experts: dispatch, runners, balance, CPU experts."""

from __future__ import annotations

from typing import Literal

from ..declare import Subject, field, from_registry


class Moe(Subject):
    """Mixture of experts."""

    namespace = "exec.moe"
    title = "Mixture of experts"

    enable_fused_moe_sum_all_reduce = field(bool, False, "")
    moe_a2a_backend = field(str, "none", "", choices=from_registry("moe_dispatchers", "none"), resolvable=True)
    enable_w4a4_mxfp4_megamoe = field(bool, False, "")
    deepep_v2_mode = field(Literal["direct", "hybrid"], "direct", "")
    moe_runner_backend = field(str, "auto", "", choices=from_registry("moe_runners", "auto"), resolvable=True)
    flashinfer_mxfp4_moe_precision = field(Literal["default", "bf16", "fp8"], "default", "")
    deepep_mode = field(Literal["auto", "normal", "low_latency"], "auto", "")
    fuseep_mode = field(Literal[1, 2], 2, "")
    deepep_dispatcher_output_dtype = field(Literal["auto", "bf16", "fp8", "int8", "nvfp4"], "auto", "")
    ep_num_redundant_experts = field(int, 0, "")
    ep_dispatch_algorithm = field(Literal["static", "dynamic", "fake", "lp"] | None, None, "")
    init_expert_location = field(str, "trivial", "")
    enable_eplb = field(bool, False, "")
    eplb_algorithm = field(str, "auto", "")
    eplb_rebalance_num_iterations = field(int, 1000, "")
    eplb_rebalance_layers_per_chunk = field(int | None, None, "")
    eplb_min_rebalancing_utilization_threshold = field(float, 1.0, "")
    expert_distribution_recorder_mode = field(Literal["stat", "stat_approx", "per_pass", "per_token"] | None, None, "")
    expert_distribution_recorder_buffer_size = field(int | None, None, "")
    expert_balancedness_report_mode = field(Literal["off", "server_log", "prometheus", "both"], "off", "")
    deepep_config = field(str | None, None, "")
    elastic_ep_backend = field(Literal["none", "mooncake", "nixl"] | None, None, "")
    enable_elastic_expert_backup = field(bool, False, "")
    mooncake_ib_device = field(str | None, None, "")
    enable_waterfill = field(bool, False, "")
    ep_join_mode = field(Literal["scale", "recover"] | None, None, "", flag="--elastic-ep-join-mode")
    elastic_ep_scale_timeout = field(float, 600.0, "")
    elastic_ep_rejoin = field(bool, False, "", replaced_by="ep_join_mode=recover")
    disable_flashinfer_cutlass_moe_fp4_allgather = field(bool, False, "")
    disable_shared_experts_fusion = field(bool, False, "", resolvable=True)
    enforce_shared_experts_fusion = field(bool, False, "")


class CpuExperts(Subject):
    """Experts on the CPU."""

    namespace = "exec.moe"
    title = "Experts on the CPU"

    kt_weight_path = field(str | None, None, "")
    kt_method = field(str, "AMXINT4", "")
    kt_cpuinfer = field(int | None, None, "")
    kt_threadpool_count = field(int, 2, "")
    kt_num_gpu_experts = field(int | None, None, "")
    kt_max_deferred_experts_per_token = field(int | None, None, "")
