"""Mixture of experts: dispatch, runners, balance, CPU experts."""

from __future__ import annotations

from typing import Literal

from ..declare import Subject, field, from_registry


class Moe(Subject):
    """Mixture of experts."""

    namespace = "exec.moe"
    title = "Mixture of experts"

    enable_fused_moe_sum_all_reduce = field(bool, False, "Sum expert outputs inside the all-reduce (Triton).")
    moe_a2a_backend = field(
        str,
        "none",
        "How tokens travel to their experts and back. none gathers and reduces over all ranks.",
        choices=from_registry("moe_dispatchers", "none"),
        resolvable=True,
    )
    enable_w4a4_mxfp4_megamoe = field(bool, False, "Run MegaMoE with 4-bit weights and activations.")
    deepep_v2_mode = field(
        Literal["direct", "hybrid"], "direct", "DeepEP v2 topology: direct inside a host, hybrid across hosts."
    )
    moe_runner_backend = field(
        str,
        "auto",
        "Kernels that multiply by the experts' weights.",
        choices=from_registry("moe_runners", "auto"),
        resolvable=True,
    )
    flashinfer_mxfp4_moe_precision = field(
        Literal["default", "bf16", "fp8"], "default", "Activation precision of FlashInfer's MXFP4 experts."
    )
    deepep_mode = field(
        Literal["auto", "normal", "low_latency"],
        "auto",
        "DeepEP kernels: normal for throughput, low_latency for decoding, auto for each phase its own.",
    )
    fuseep_mode = field(Literal[1, 2], 2, "Ascend fused dispatch: 1 for decoding, 2 for mixed serving.")
    deepep_dispatcher_output_dtype = field(
        Literal["auto", "bf16", "fp8", "int8", "nvfp4"], "auto", "Data type in which DeepEP hands tokens to experts."
    )
    ep_num_redundant_experts = field(int, 0, "Extra copies of busy experts.")
    ep_dispatch_algorithm = field(
        Literal["static", "dynamic", "fake", "lp"] | None, None, "How a copy is chosen among an expert's copies."
    )
    init_expert_location = field(str, "trivial", "Where experts are at first: trivial, a JSON object or a file.")
    enable_eplb = field(bool, False, "Move experts between ranks as the load changes.")
    eplb_algorithm = field(str, "auto", "How new places for experts are found.")
    eplb_rebalance_num_iterations = field(int, 1000, "Steps between two moves of experts.")
    eplb_rebalance_layers_per_chunk = field(
        int | None, None, "Layers whose experts move at a time. Unset: all at once."
    )
    eplb_min_rebalancing_utilization_threshold = field(
        float, 1.0, "Do not move while the ranks are at least this evenly used, 0 to 1."
    )
    expert_distribution_recorder_mode = field(
        Literal["stat", "stat_approx", "per_pass", "per_token"] | None,
        None,
        "What is recorded about the choice of experts.",
    )
    expert_distribution_recorder_buffer_size = field(int | None, None, "Steps that the record keeps; -1 all.")
    expert_balancedness_report_mode = field(
        Literal["off", "server_log", "prometheus", "both"], "off", "Where the evenness of expert load is reported."
    )
    deepep_config = field(str | None, None, "Tuned DeepEP settings: a JSON object or a file.")
    elastic_ep_backend = field(
        Literal["none", "mooncake", "nixl"] | None, None, "Collective library that survives lost expert ranks."
    )
    enable_elastic_expert_backup = field(
        bool, False, "Keep copies of expert weights in host memory for elastic serving."
    )
    mooncake_ib_device = field(
        str | None, None, "InfiniBand devices for Mooncake, separated by commas. Unset finds them."
    )
    enable_waterfill = field(bool, False, "Send the shared expert's work to the least busy rank.")
    ep_join_mode = field(
        Literal["scale", "recover"] | None,
        None,
        "How this process joins an elastic server: scale adds a rank, recover refills a lost one.",
        flag="--elastic-ep-join-mode",
    )
    elastic_ep_scale_timeout = field(float, 600.0, "Seconds within which an elastic change of size must end.")
    elastic_ep_rejoin = field(
        bool, False, "Old way to set --elastic-ep-join-mode recover.", replaced_by="ep_join_mode=recover"
    )
    disable_flashinfer_cutlass_moe_fp4_allgather = field(bool, False, "Do not quantize to FP4 before the gather.")
    disable_shared_experts_fusion = field(
        bool, False, "Compute shared experts by themselves instead of as one more routed expert.", resolvable=True
    )
    enforce_shared_experts_fusion = field(bool, False, "Fuse shared experts even where it is off by default.")


class CpuExperts(Subject):
    """Experts on the CPU."""

    namespace = "exec.moe"
    title = "Experts on the CPU"

    kt_weight_path = field(str | None, None, "Folder with expert weights for the CPU (KTransformers).")
    kt_method = field(str, "AMXINT4", "Weight format of the CPU experts.")
    kt_cpuinfer = field(int | None, None, "CPU threads for experts.")
    kt_threadpool_count = field(int, 2, "Thread pools, one per NUMA node.")
    kt_num_gpu_experts = field(int | None, None, "Experts per layer that stay on the GPU.")
    kt_max_deferred_experts_per_token = field(
        int | None, None, "Most experts per token whose CPU result may arrive one layer later."
    )
