"""Data-parallel attention and pipeline parallelism: what one replica drops, and how a prefill chunk is shared."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, set_env, suggest

from .asking import fill, in_order
from .graph_plan import DISABLED, REQUEST_FIELDS, locked, plan_of, prefill_sizes, with_phase


@rule(
    stage="platform",
    reads=(
        "dwdp_size",
        "tp_size",
        "pp_size",
        "disaggregation_mode",
        "enable_eplb",
        "speculative_algorithm",
        "enable_two_batch_overlap",
    ),
    writes=(
        "dp_size",
        "enable_dp_attention",
        "enable_dp_attention_local_control_broadcast",
        "enable_dp_lm_head",
        "moe_dense_tp_size",
        "ep_size",
        "moe_dp_size",
        "moe_a2a_backend",
        "disable_cuda_graph",
    ),
)
def distributed_weights(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Distributed-weight data parallelism spreads experts over replicas that each run their own requests."""
    size = view.dwdp_size
    if size <= 1:
        return
    for condition, name in (
        (size == view.tp_size, "tp_size"),
        (view.disaggregation_mode in ("null", "prefill"), "disaggregation_mode"),
        (not view.enable_eplb, "enable_eplb"),
        (view.speculative_algorithm is None, "speculative_algorithm"),
        (view.pp_size == 1, "pp_size"),
        (not view.enable_two_batch_overlap, "enable_two_batch_overlap"),
    ):
        yield require(
            condition,
            "weights are fetched layer by layer from fixed owners, one replica per tensor-parallel rank",
            fields=("dwdp_size", name),
            kind="AssertionError",
        )
    because = "every rank is a replica that fetches the experts it does not hold"
    for field, value in (
        ("dp_size", size),
        ("enable_dp_attention", True),
        ("enable_dp_attention_local_control_broadcast", True),
        ("enable_dp_lm_head", True),
        ("moe_dense_tp_size", 1),
        ("ep_size", size),
        ("moe_dp_size", 1),
        ("moe_a2a_backend", "none"),
    ):
        yield force(field, value, because)
    yield force("disable_cuda_graph", True, "weight fetches are not captured")
    yield set_env("SGLANG_SCHEDULER_SKIP_ALL_GATHER", "True", "replicas do not synchronise their schedulers")


@rule(
    stage="parallel",
    reads=("dp_size", "ep_join_mode", "enable_dp_attention", "enable_dp_lm_head"),
    writes=("enable_dp_attention", "enable_dp_lm_head"),
)
def single_replica(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """With one replica there is nothing to split by request."""
    if view.dp_size == 1 and view.ep_join_mode != "scale":
        for name in ("enable_dp_attention", "enable_dp_lm_head"):
            if getattr(view, name):
                yield force(name, False, "dp_size is 1")


@rule(
    stage="parallel",
    reads=(
        "enable_dp_attention",
        "enable_dp_lm_head",
        "dp_size",
        "tp_size",
        "attn_cp_size",
        "disaggregation_mode",
        "enable_tp_lm_head_all_to_all",
    ),
    writes=("enable_tp_lm_head_all_to_all",),
    after=("single_replica",),
)
def sharded_head_exchange(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Decode servers with one replica per rank exchange hidden states instead of replicating the LM head."""
    if view.enable_tp_lm_head_all_to_all is None:
        useful = (
            view.disaggregation_mode == "decode"
            and view.enable_dp_attention
            and view.dp_size > 1
            and view.tp_size == view.dp_size
            and view.attn_cp_size == 1
            and not view.enable_dp_lm_head
        )
        yield suggest(
            "enable_tp_lm_head_all_to_all",
            bool(useful),
            "one exchange per step is cheaper than a whole head per rank" if useful else "only decode replicas gain",
        )


@rule(
    stage="parallel",
    reads=(
        "enable_dp_attention",
        "enable_dp_lm_head",
        "enable_tp_lm_head_all_to_all",
        "dp_size",
        "tp_size",
        "attn_cp_size",
    ),
    after=("sharded_head_exchange",),
)
def data_parallel_checks(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Replicas share the tensor-parallel group evenly, and head layouts need data-parallel attention."""
    for condition, because, fields in (
        (
            not view.enable_dp_attention or view.tp_size % view.dp_size == 0,
            "dp_size must divide tp_size",
            ("dp_size", "tp_size"),
        ),
        (
            not view.enable_dp_lm_head or view.enable_dp_attention,
            "a head per replica needs data-parallel attention",
            ("enable_dp_lm_head", "enable_dp_attention"),
        ),
    ):
        yield require(bool(condition), because, fields=fields, kind="AssertionError")
    if not view.enable_tp_lm_head_all_to_all:
        return
    for condition, name in (
        (view.enable_dp_attention, "enable_dp_attention"),
        (not view.enable_dp_lm_head, "enable_dp_lm_head"),
        (view.tp_size == view.dp_size, "dp_size"),
        (view.attn_cp_size == 1, "attn_cp_size"),
    ):
        yield require(
            bool(condition),
            "the exchange assumes one replica per rank and a head sharded over all of them",
            fields=("enable_tp_lm_head_all_to_all", name),
            kind="AssertionError",
        )


@rule(
    stage="parallel",
    reads=("pp_size", "disable_overlap_schedule"),
    writes=("disable_overlap_schedule",),
    after=("context_parallel_sizes",),
)
def pipeline_without_overlap(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Pipeline stages overlap among themselves; the scheduler's own overlap is off."""
    if view.pp_size > 1 and not view.disable_overlap_schedule:
        yield force("disable_overlap_schedule", True, "pipeline stages already overlap scheduling with work")


@rule(
    stage="attention",
    reads=(
        *REQUEST_FIELDS,
        "enable_dp_attention",
        "dp_size",
        "chunked_prefill_size",
        "cuda_graph_config",
        "schedule_conservativeness",
    ),
    writes=("schedule_conservativeness", "chunked_prefill_size", "cuda_graph_config"),
    after=("hicache_layout",),
)
def chunk_per_replica(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Under data-parallel attention each replica prefills its share of the chunk, and graphs need no more."""
    if not view.enable_dp_attention:
        return
    because = "each replica sees a share of the requests"
    yield force("schedule_conservativeness", view.schedule_conservativeness * 0.3, because)
    chunk = view.chunked_prefill_size // view.dp_size
    yield force("chunked_prefill_size", chunk, f"{because}: the chunk is divided by dp_size")
    config, fixed = plan_of(view, facts), locked(view)
    prefill = config["prefill"]
    if (
        prefill["backend"] != DISABLED
        and prefill["max_bs"] is not None
        and prefill["max_bs"] > chunk
        and ("prefill", "max_bs") not in fixed
    ):
        changes = {"max_bs": chunk}
        if ("prefill", "bs") not in fixed:
            changes["bs"] = prefill_sizes(chunk)
        yield fill(
            view,
            "cuda_graph_config",
            with_phase(config, "prefill", **changes),
            "no prefill step is longer than a replica's chunk",
        )


RULES = in_order(
    distributed_weights,
    single_replica,
    sharded_head_exchange,
    data_parallel_checks,
    pipeline_without_overlap,
    chunk_per_replica,
)
