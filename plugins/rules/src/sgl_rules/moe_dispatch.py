"""Dispatchers that carry tokens to expert-parallel ranks: what each implies for ranks, runners, modes and graphs."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, set_env

from .asking import fill, in_order
from .choices.query import names_with
from .graph_plan import DISABLED, PIECEWISE, plan_of, with_phase, without_graphs
from .machine import number, switch
from .moe import has_nvfp4_experts
from .sizing import prefill_buffer_tokens

_DEEPEP_V2_MODELS = frozenset({"DeepseekV3ForCausalLM", "DeepseekV4ForCausalLM", "Qwen3MoeForCausalLM"})
_FLASHINFER_RUNNERS = (
    "flashinfer_cutlass",
    "flashinfer_cutedsl",
    "flashinfer_trtllm",
    "flashinfer_trtllm_routed",
    "deep_gemm",
)


@rule(
    stage="moe",
    reads=(
        "enable_waterfill",
        "moe_a2a_backend",
        "tp_size",
        "ep_size",
        "disable_shared_experts_fusion",
        "enforce_shared_experts_fusion",
    ),
    writes=("moe_a2a_backend", "ep_size", "disable_shared_experts_fusion", "enforce_shared_experts_fusion"),
    after=("cutlass_runner",),
)
def dispatcher_ranks(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Dispatchers span the tensor-parallel group, and some decide where shared experts run."""
    dispatcher = view.moe_a2a_backend
    if view.enable_waterfill and dispatcher not in ("deepep", "megamoe"):
        dispatcher = "deepep"
        yield fill(view, "moe_a2a_backend", dispatcher, "waterfill balances shared experts over deepep's ranks")
    if switch(facts, "SGLANG_OPT_USE_DEEPGEMM_MEGA_MOE") and dispatcher != "megamoe":
        dispatcher = "megamoe"
        yield fill(view, "moe_a2a_backend", dispatcher, "SGLANG_OPT_USE_DEEPGEMM_MEGA_MOE is set")
    if dispatcher in names_with(view, "moe_dispatchers", "spans_group") and view.ep_size != view.tp_size:
        yield force("ep_size", view.tp_size, f"{dispatcher} exchanges tokens over the whole tensor-parallel group")
    if view.enable_waterfill:
        if view.disable_shared_experts_fusion:
            yield force("disable_shared_experts_fusion", False, "waterfill treats shared experts as routed ones")
        if not view.enforce_shared_experts_fusion:
            yield force("enforce_shared_experts_fusion", True, "waterfill treats shared experts as routed ones")
    elif dispatcher in ("flashinfer", "deepep_v2") and not view.disable_shared_experts_fusion:
        yield force("disable_shared_experts_fusion", True, f"{dispatcher} carries routed experts only")


@rule(
    stage="moe",
    reads=("moe_a2a_backend", "moe_runner_backend", "deepep_mode", "cuda_graph_config"),
    writes=("deepep_mode", "cuda_graph_config"),
    after=("dispatcher_ranks",),
)
def deepep_modes(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """DeepEP's dispatch for long batches cannot be captured, and one runner takes only the short form."""
    if view.moe_a2a_backend != "deepep":
        return
    mode = view.deepep_mode
    if view.moe_runner_backend == "flashinfer_cutedsl":
        yield require(
            mode != "normal",
            "flashinfer_cutedsl takes tokens in the masked low-latency layout",
            fix="use --deepep-mode low_latency",
            fields=("deepep_mode", "moe_runner_backend"),
        )
        if mode == "auto":
            yield fill(view, "deepep_mode", "low_latency", "the layout this runner takes")
    if mode == "normal":
        plan = without_graphs(plan_of(view, facts))
        yield fill(view, "cuda_graph_config", plan, "normal dispatch waits for counts on the host")


@rule(
    stage="moe",
    reads=(
        "moe_a2a_backend",
        "moe_runner_backend",
        "enable_deterministic_inference",
        "cuda_graph_config",
        "enable_single_batch_overlap",
        "enable_two_batch_overlap",
        "enforce_shared_experts_fusion",
    ),
    writes=("moe_runner_backend", "cuda_graph_config"),
    after=("deepep_modes",),
)
def deepep_v2_limits(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """DeepEP v2: proven models, the deep_gemm runner, no overlap of batches, no captured prefill."""
    if view.moe_a2a_backend != "deepep_v2":
        return
    runner = view.moe_runner_backend
    for condition, because, name in (
        (model.architecture in _DEEPEP_V2_MODELS, f"{model.architecture} was not proven with it", "moe_a2a_backend"),
        (not view.enable_deterministic_inference, "its buffers sort in changing order", "moe_a2a_backend"),
        (runner in ("auto", "deep_gemm"), "its tokens are multiplied by deep_gemm", "moe_runner_backend"),
        (not view.enable_two_batch_overlap, "batches are not overlapped yet", "enable_two_batch_overlap"),
        (not view.enable_single_batch_overlap, "batches are not overlapped yet", "enable_single_batch_overlap"),
        (not view.enforce_shared_experts_fusion, "shared experts run apart", "enforce_shared_experts_fusion"),
    ):
        yield require(bool(condition), f"DeepEP v2: {because}", fields=tuple({"moe_a2a_backend", name}))
    yield set_env("NCCL_CUMEM_ENABLE", "1", "its buffers are mapped between ranks")
    if runner == "auto":
        yield fill(view, "moe_runner_backend", "deep_gemm", "the runner for DeepEP v2")
    plan = with_phase(plan_of(view, facts), "prefill", backend=DISABLED)
    yield fill(view, "cuda_graph_config", plan, "its prefill dispatch is not captured")


@rule(
    stage="moe",
    reads=("moe_a2a_backend",),
    writes=("moe_a2a_backend",),
    after=("deepep_v2_limits",),
)
def ascend_dispatch(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """On Ascend tensor-parallel experts need no dispatcher of their own."""
    if view.moe_a2a_backend == "ascend_tp":
        yield force("moe_a2a_backend", "none", "tensor-parallel experts exchange nothing")


@rule(
    stage="moe",
    reads=("moe_a2a_backend", "enable_dp_attention", "dp_size", "tp_size", "moe_runner_backend", "quantization"),
    after=("ascend_dispatch",),
)
def flashinfer_dispatch(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """FlashInfer's dispatcher: a replica per rank, its own runners."""
    if view.moe_a2a_backend != "flashinfer":
        return
    yield require(
        bool(view.enable_dp_attention) and view.dp_size == view.tp_size,
        "FlashInfer dispatches between replicas of one rank each",
        fix="set --enable-dp-attention and --dp-size to --tp-size",
        fields=("moe_a2a_backend", "dp_size", "tp_size", "enable_dp_attention"),
        kind="AssertionError",
    )
    runner = view.moe_runner_backend
    plain = runner == "flashinfer_cutedsl" and switch(facts, "SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16")
    yield require(
        not plain or not switch(facts, "SGLANG_MOE_NVFP4_DISPATCH"),
        "weights of four bits with activations of sixteen are dispatched in bfloat16",
        fields=("moe_runner_backend",),
    )
    nvfp4 = view.quantization == "modelopt_fp4" or has_nvfp4_experts(model)
    if not plain and nvfp4 and "SGLANG_MOE_NVFP4_DISPATCH" not in facts.env:
        yield set_env("SGLANG_MOE_NVFP4_DISPATCH", "True", "tokens travel in the experts' own format")
    yield require(
        runner in _FLASHINFER_RUNNERS,
        f"FlashInfer's dispatcher feeds {', '.join(_FLASHINFER_RUNNERS)}",
        fields=("moe_a2a_backend", "moe_runner_backend"),
        kind="AssertionError",
    )


@rule(
    stage="moe",
    reads=(
        "moe_a2a_backend",
        "deepep_mode",
        "chunked_prefill_size",
        "disaggregation_mode",
        "enable_dp_attention",
        "cuda_graph_max_bs_decode",
        "dp_size",
        "moe_runner_backend",
    ),
    writes=("deepep_mode", "moe_runner_backend"),
    after=("flashinfer_dispatch",),
)
def dispatch_budget(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """MoRI and Perplexity dispatch into buffers of a fixed number of tokens."""
    dispatcher, mode, runner = view.moe_a2a_backend, view.deepep_mode, view.moe_runner_backend
    chunk = view.chunked_prefill_size or 0
    bounded = chunk > 0 and view.disaggregation_mode != "decode"
    if dispatcher == "mori":
        if mode == "auto":
            yield fill(view, "deepep_mode", "normal", "MoRI dispatches whole batches")
        limit = number(facts, "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK", 4096)
        yield _budget(not bounded or chunk <= limit, chunk, limit, "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK")
    if dispatcher != "pplx":
        return
    yield require(
        mode != "normal",
        "Perplexity's kernels dispatch in low-latency form",
        fields=("moe_a2a_backend", "deepep_mode"),
    )
    if mode == "auto":
        yield fill(view, "deepep_mode", "low_latency", "Perplexity's kernels dispatch in low-latency form")
    yield require(
        bool(view.enable_dp_attention) and view.dp_size >= 2,
        "Perplexity's kernels dispatch between replicas",
        fix="set --enable-dp-attention and --dp-size 2 or more",
        fields=("moe_a2a_backend", "enable_dp_attention", "dp_size"),
        kind="AssertionError",
    )
    yield require(
        runner in ("deep_gemm", "auto"),
        "Perplexity's kernels feed deep_gemm",
        fields=("moe_a2a_backend", "moe_runner_backend"),
        kind="AssertionError",
    )
    if runner == "auto":
        yield fill(view, "moe_runner_backend", "deep_gemm", "the runner for Perplexity's kernels")
    tokens = max(chunk, view.cuda_graph_max_bs_decode or 0)
    limit = number(facts, "SGLANG_PPLX_NUM_MAX_DISPATCH_TOKENS_PER_RANK", 128)
    yield _budget(not bounded or tokens <= limit, tokens, limit, "SGLANG_PPLX_NUM_MAX_DISPATCH_TOKENS_PER_RANK")


def _budget(condition: bool, tokens: int, limit: int, variable: str) -> Declaration:
    return require(
        condition,
        f"a step of {tokens} tokens does not fit dispatch buffers of {limit}",
        fix=f"raise {variable} or lower --chunked-prefill-size",
        fields=("moe_a2a_backend", "chunked_prefill_size"),
        kind="AssertionError",
    )


@rule(
    stage="speculative",
    reads=(
        "moe_a2a_backend",
        "moe_runner_backend",
        "max_prefill_tokens",
        "cuda_graph_config",
        "ep_size",
        "disaggregation_mode",
        "speculative_algorithm",
        "speculative_num_draft_tokens",
    ),
    after=("layernorm_sequence_parallel",),
)
def cutedsl_budget(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """FlashInfer's dispatch buffers hold the largest step of the CuTe DSL runner."""
    pair = (view.moe_a2a_backend, view.moe_runner_backend)
    if pair != ("flashinfer", "flashinfer_cutedsl") or view.max_prefill_tokens <= 0:
        return
    if view.disaggregation_mode == "decode":
        return
    plan = plan_of(view, facts)
    prefill = view.max_prefill_tokens
    if plan["prefill"]["backend"] == PIECEWISE:
        prefill = max(prefill, plan["prefill"]["max_bs"] or 0)
    per_request = (view.speculative_num_draft_tokens or 1) if view.speculative_algorithm else 1
    needed = max(prefill, (plan["decode"]["max_bs"] or 0) * per_request)
    limit = number(facts, "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK", 1024) * view.ep_size
    yield require(
        limit >= needed,
        f"a step of {needed} tokens does not fit dispatch buffers of {limit}",
        fix="raise SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK or lower --max-prefill-tokens",
        fields=("max_prefill_tokens", "moe_a2a_backend"),
    )


@rule(
    stage="checks",
    reads=(
        "moe_a2a_backend",
        "speculative_moe_a2a_backend",
        "speculative_algorithm",
        "cuda_graph_config",
        "chunked_prefill_size",
        "disaggregation_mode",
        "dp_size",
        "enable_dp_attention",
        "enable_dynamic_chunking",
        "max_prefill_tokens",
        "max_running_requests",
        "pp_size",
        "speculative_num_draft_tokens",
    ),
    after=("media_in_one_chunk",),
)
def deepep_v2_budget(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """DeepEP v2 is not for draft models, and its buffers hold the largest step."""
    spec = view.speculative_algorithm
    draft = view.speculative_moe_a2a_backend
    if draft is None and spec and spec.upper() != "NGRAM":
        draft = view.moe_a2a_backend
    yield require(
        draft != "deepep_v2",
        "DeepEP v2 was not proven for draft models",
        fix="set --speculative-moe-a2a-backend",
        fields=("speculative_moe_a2a_backend", "moe_a2a_backend"),
    )
    if view.moe_a2a_backend != "deepep_v2":
        return
    limit = number(facts, "SGLANG_DEEPEP_V2_NUM_MAX_DISPATCH_TOKENS_PER_RANK", 128)
    needed = 0
    if view.disaggregation_mode != "decode":
        needed = prefill_buffer_tokens(view) or view.max_prefill_tokens or 0
    decode = plan_of(view, facts)["decode"]
    if view.disaggregation_mode != "prefill" and decode["backend"] != DISABLED:
        requests = decode["max_bs"] or 0
        if view.max_running_requests is not None:
            replicas = view.dp_size if view.enable_dp_attention else 1
            requests = min(requests, max(1, view.max_running_requests // replicas))
        needed = max(needed, requests * ((view.speculative_num_draft_tokens or 1) if spec else 1))
    yield require(
        needed <= limit,
        f"a step of {needed} tokens does not fit dispatch buffers of {limit}",
        fix="raise SGLANG_DEEPEP_V2_NUM_MAX_DISPATCH_TOKENS_PER_RANK or lower --chunked-prefill-size",
        fields=("moe_a2a_backend", "chunked_prefill_size", "max_running_requests"),
    )


RULES = in_order(
    dispatcher_ranks,
    deepep_modes,
    deepep_v2_limits,
    ascend_dispatch,
    flashinfer_dispatch,
    dispatch_budget,
    cutedsl_budget,
    deepep_v2_budget,
)
