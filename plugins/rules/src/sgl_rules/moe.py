"""Mixture of experts: runners and the formats they multiply, shared-expert fusion, expert statistics."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest

from .asking import fill, in_order
from .choices.query import formats_of, names_with
from .machine import is_gfx95, is_npu, is_sm100, is_sm120, switch

_NVFP4_ONLINE_RUNNERS = ("flashinfer_trtllm", "flashinfer_trtllm_routed", "flashinfer_cutedsl")
_FORMAT_CHECKED = (
    "flashinfer_cutlass",
    "flashinfer_cutedsl",
    "flashinfer_trtllm",
    "experimental_sgl_trtllm",
    "flashinfer_trtllm_routed",
)
_WHOLE_GROUP = ("flashinfer_cutlass", "flashinfer_cutedsl")
_UNFUSED = ("flashinfer_cutedsl", "flashinfer_trtllm", "experimental_sgl_trtllm", "flashinfer_trtllm_routed")


def has_nvfp4_experts(model: ModelInfo) -> bool:
    """A mixed checkpoint whose experts alone are NVFP4."""
    section = model.quant_config
    return (
        str(section.get("quant_algo", "")).upper() == "MIXED_PRECISION"
        and str(section.get("moe_quant_algo", "")).upper() == "NVFP4"
        and section.get("group_size") is not None
    )


@rule(
    stage="moe",
    reads=("moe_runner_backend", "quantization"),
    writes=("moe_runner_backend",),
)
def runner_for_format(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Formats that few runners multiply choose among them."""
    runner, method = view.moe_runner_backend, view.quantization
    if method == "nvfp4_online":
        yield require(is_sm100(facts), "NVFP4 while loading needs SM100 or SM103", fields=("quantization",))
        yield require(
            runner == "auto" or runner in _NVFP4_ONLINE_RUNNERS,
            "this runner does not multiply weights quantized to NVFP4 while loading",
            fix=f"use one of {', '.join(_NVFP4_ONLINE_RUNNERS)}",
            fields=("moe_runner_backend", "quantization"),
        )
        if runner == "auto":
            yield fill(view, "moe_runner_backend", "flashinfer_trtllm", "the fastest runner for NVFP4")
    elif method == "mxfp8" and not is_npu(facts):
        amd = is_gfx95(facts)
        allowed = (*names_with(view, "moe_runners", "mxfp8"), *(("triton",) if amd else ()))
        default = "triton" if amd else "flashinfer_trtllm"
        if runner == "auto":
            yield fill(view, "moe_runner_backend", default, "the fastest runner for MXFP8 here")
        elif runner not in allowed:
            yield force("moe_runner_backend", default, f"MXFP8 is multiplied by {', '.join(allowed)}")
    elif method == "modelopt_fp4" and runner == "auto" and is_sm120(facts):
        yield fill(view, "moe_runner_backend", "flashinfer_cutlass", "the runner for NVFP4 on this GPU")


@rule(
    stage="moe",
    reads=("moe_runner_backend", "quantization", "ep_size", "tp_size", "moe_a2a_backend"),
    after=("runner_for_format",),
)
def runner_limits(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """What a runner multiplies and how experts may be spread under it."""
    runner, method, experts = view.moe_runner_backend, view.quantization, view.ep_size
    if runner in _FORMAT_CHECKED:
        formats = formats_of(view, runner)
        mixed = runner == "flashinfer_cutedsl" and has_nvfp4_experts(model)
        yield require(
            mixed or not formats or (method or "none") in formats,
            f"{runner} multiplies {', '.join(sorted(formats))}",
            fields=("moe_runner_backend", "quantization"),
            kind="AssertionError",
        )
    if runner in _WHOLE_GROUP:
        yield require(
            experts in (1, view.tp_size),
            "experts are spread over the whole tensor-parallel group or not at all",
            fields=("ep_size", "tp_size", "moe_runner_backend"),
            kind="AssertionError",
        )
    if runner == "flashinfer_cutedsl":
        yield require(
            view.moe_a2a_backend in ("none", "deepep", "flashinfer"),
            "flashinfer_cutedsl takes tokens from deepep or flashinfer",
            fields=("moe_runner_backend", "moe_a2a_backend"),
            kind="AssertionError",
        )
        per_token = facts.env.get("SGLANG_FLASHINFER_NVFP4_PER_TOKEN_ACTIVATION", "").lower() in ("1", "true")
        yield require(
            view.moe_a2a_backend != "deepep" or not (method == "nvfp4_online" or per_token),
            "activations quantized per token are not dispatched by deepep",
            fields=("moe_runner_backend", "moe_a2a_backend"),
        )


@rule(
    stage="moe",
    reads=("moe_runner_backend", "disable_shared_experts_fusion"),
    writes=("disable_shared_experts_fusion",),
    after=("runner_limits",),
)
def shared_experts_apart(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Some runners multiply routed experts only; shared experts then run beside them."""
    runner = view.moe_runner_backend
    if runner in _UNFUSED and not view.disable_shared_experts_fusion:
        yield force("disable_shared_experts_fusion", True, f"{runner} multiplies routed experts only")


@rule(
    stage="moe",
    reads=("moe_runner_backend", "quantization", "ep_size"),
    writes=("moe_runner_backend",),
    after=("shared_experts_apart",),
)
def cutlass_runner(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """CUTLASS by environment switch; its FP8 form holds all experts on every rank."""
    runner, fp8 = view.moe_runner_backend, view.quantization in ("fp8", "mxfp8")
    if switch(facts, "SGLANG_CUTLASS_MOE"):
        yield require(
            fp8,
            "SGLANG_CUTLASS_MOE asks for the FP8 runner",
            fields=("moe_runner_backend", "quantization"),
            kind="AssertionError",
        )
        if runner != "cutlass":
            runner = "cutlass"
            yield force("moe_runner_backend", runner, "SGLANG_CUTLASS_MOE is set")
    yield require(
        runner != "cutlass" or not fp8 or view.ep_size == 1,
        "the CUTLASS FP8 runner holds all experts on every rank",
        fields=("moe_runner_backend", "ep_size"),
        kind="AssertionError",
    )


@rule(
    stage="moe",
    reads=(
        "enable_eplb",
        "init_expert_location",
        "ep_dispatch_algorithm",
        "moe_a2a_backend",
        "ep_size",
        "ep_join_mode",
        "expert_distribution_recorder_mode",
    ),
    writes=("expert_distribution_recorder_mode", "ep_dispatch_algorithm"),
    after=("dispatch_budget",),
)
def expert_balance(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Balancing experts needs statistics and a way to choose among replicas."""
    if view.enable_eplb and view.expert_distribution_recorder_mode is None:
        yield suggest("expert_distribution_recorder_mode", "stat", "balancing counts tokens per expert")
    same_everywhere = view.moe_a2a_backend == "none"
    algorithm = view.ep_dispatch_algorithm
    if (view.enable_eplb or view.init_expert_location != "trivial") and algorithm is None:
        algorithm = "dynamic" if same_everywhere else "static"
        yield suggest(
            "ep_dispatch_algorithm",
            algorithm,
            "without a dispatcher all ranks must pick the same replica" if same_everywhere else "one replica per rank",
        )
    yield require(
        not same_everywhere or algorithm not in ("static", "lp"),
        "ranks would pick different replicas of one expert, and no dispatcher routes the token to one of them",
        fix="use --ep-dispatch-algorithm dynamic",
        fields=("ep_dispatch_algorithm", "moe_a2a_backend"),
    )
    yield require(
        not view.enable_eplb or view.ep_join_mode == "scale" or view.ep_size > 1,
        "one rank has nothing to balance",
        fields=("enable_eplb", "ep_size"),
        kind="AssertionError",
    )


@rule(
    stage="moe",
    reads=(
        "expert_balancedness_report_mode",
        "eplb_rebalance_num_iterations",
        "expert_distribution_recorder_mode",
        "expert_distribution_recorder_buffer_size",
    ),
    writes=("expert_distribution_recorder_mode", "expert_distribution_recorder_buffer_size"),
    after=("expert_balance",),
)
def expert_statistics(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Reports of balance need statistics, kept for as many steps as balancing looks back."""
    yield require(
        "SGLANG_ENABLE_EPLB_BALANCEDNESS_METRIC" not in facts.env,
        "SGLANG_ENABLE_EPLB_BALANCEDNESS_METRIC is gone",
        fix="use --expert-balancedness-report-mode",
        fields=("expert_balancedness_report_mode",),
    )
    mode = view.expert_distribution_recorder_mode
    if view.expert_balancedness_report_mode != "off" and mode is None:
        mode = "stat"
        yield suggest("expert_distribution_recorder_mode", mode, "a report needs statistics")
    if view.expert_distribution_recorder_buffer_size is None:
        period = view.eplb_rebalance_num_iterations
        if period is not None:
            yield suggest("expert_distribution_recorder_buffer_size", period, "balancing looks back one period")
        elif mode is not None:
            yield suggest("expert_distribution_recorder_buffer_size", 1000, "a thousand steps of statistics")


@rule(
    stage="moe",
    reads=(
        "moe_runner_backend",
        "ep_size",
        "moe_a2a_backend",
        "enable_lora",
        "lora_paths",
        "elastic_ep_backend",
        "elastic_ep_rejoin",
        "enable_elastic_expert_backup",
        "enable_eplb",
        "ep_num_redundant_experts",
        "init_expert_location",
        "lora_backend",
        "lora_use_virtual_experts",
    ),
    after=("elastic_experts",),
)
def marlin_experiment(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The experimental Marlin runner: expert parallelism without a dispatcher, LoRA through Triton."""
    if view.moe_runner_backend != "experimental_sgl_marlin":
        return
    spread = view.ep_size > 1
    fields = ("moe_runner_backend",)
    yield require(not spread or view.moe_a2a_backend == "none", "no dispatcher feeds this runner", fields=fields)
    lora = view.enable_lora or (view.enable_lora is None and bool(view.lora_paths))
    if not lora:
        return
    plain = (
        view.init_expert_location == "trivial"
        and not view.ep_num_redundant_experts
        and not view.enable_eplb
        and view.elastic_ep_backend is None
        and not view.enable_elastic_expert_backup
        and not view.elastic_ep_rejoin
    )
    for condition, because in (
        (view.lora_use_virtual_experts, "adapters run as virtual experts"),
        (view.lora_backend == "triton", "adapters run in Triton"),
        (not spread or plain, "adapters need experts in their plain places"),
    ):
        yield require(bool(condition), because, fields=fields)


RULES = in_order(
    runner_for_format,
    runner_limits,
    shared_experts_apart,
    cutlass_runner,
    expert_balance,
    expert_statistics,
    marlin_experiment,
)
