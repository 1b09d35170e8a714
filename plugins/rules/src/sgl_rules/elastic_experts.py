"""Elastic expert parallelism: groups that shrink, recover and grow while serving."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, suggest

from .asking import fill, in_order
from .graph_plan import DISABLED, plan_of

_ALGORITHMS = ("elasticity_aware", "elasticity_aware_hierarchical")


@rule(
    stage="moe",
    reads=(
        "elastic_ep_backend",
        "ep_join_mode",
        "max_ep_size",
        "tp_size",
        "attn_cp_size",
        "cuda_graph_config",
        "dp_size",
        "elastic_ep_initial_size",
        "elastic_ep_rejoin",
        "elastic_ep_scale_timeout",
        "enable_dp_attention",
        "enable_dp_attention_local_control_broadcast",
        "enable_dp_lm_head",
        "enable_elastic_expert_backup",
        "enable_eplb",
        "ep_join_rank_offset",
        "ep_size",
        "eplb_algorithm",
        "load_balance_method",
        "moe_a2a_backend",
        "moe_dense_tp_size",
        "moe_dp_size",
        "node_rank",
        "pp_size",
        "tokenizer_worker_num",
        "use_ray",
    ),
    writes=(
        "ep_join_mode",
        "eplb_algorithm",
        "enable_dp_attention_local_control_broadcast",
        "elastic_ep_initial_size",
    ),
    after=("expert_statistics",),
)
def elastic_experts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Elastic groups: who may join, how experts are balanced, and what growing requires."""
    backend, mode = view.elastic_ep_backend, view.ep_join_mode
    if view.elastic_ep_rejoin:
        yield _needs(mode in (None, "recover"), "rejoining recovers a lost rank", "elastic_ep_rejoin", "ep_join_mode")
        if mode is None:
            mode = "recover"
            yield suggest("ep_join_mode", mode, "--elastic-ep-rejoin means recovering a lost rank")
    if backend is not None:
        if view.enable_eplb:
            yield _needs(
                view.eplb_algorithm in ("auto", *_ALGORITHMS),
                "experts of lost ranks are placed by the elasticity-aware algorithms",
                "eplb_algorithm",
            )
            if view.eplb_algorithm == "auto":
                yield fill(view, "eplb_algorithm", _ALGORITHMS[0], "experts of lost ranks are placed anew")
        yield _needs(view.pp_size == 1, "elastic groups have one pipeline stage", "elastic_ep_backend", "pp_size")
    offset = view.ep_join_rank_offset
    if mode is not None:
        yield _needs(backend is not None, "joining needs an elastic backend", "ep_join_mode", "elastic_ep_backend")
        if mode == "scale":
            yield _needs(view.node_rank == 1, "the joining group is node 1", "ep_join_mode", "node_rank")
            yield _needs(offset > 0, "a joining group needs its first rank", "ep_join_mode", "ep_join_rank_offset")
    yield _needs(offset == 0 or mode == "scale", "ranks are offset when a group joins", "ep_join_rank_offset")
    limit = view.max_ep_size
    yield _needs(limit is None or backend is not None, "only elastic groups grow", "max_ep_size", "elastic_ep_backend")
    yield _needs(limit is None or limit > 0, "a group has at least one rank", "max_ep_size")
    grows = backend is not None and limit is not None and limit > view.tp_size
    yield _needs(
        view.elastic_ep_initial_size is None or grows,
        "an initial size is for groups that may grow beyond this server",
        "elastic_ep_initial_size",
        "max_ep_size",
    )
    if grows:
        yield from _growth(view, facts, mode)


def _growth(view: View, facts: Facts, mode: str | None) -> Iterator[Declaration]:
    size, tensor, offset = view.elastic_ep_initial_size, view.tp_size, view.ep_join_rank_offset
    if not view.enable_dp_attention_local_control_broadcast:
        yield force("enable_dp_attention_local_control_broadcast", True, "each group controls its own ranks")
    if mode == "scale":
        yield _needs(size is not None, "a joining group names the size it joins", "elastic_ep_initial_size")
        yield _needs((size or 0) <= offset, "the group has not shrunk", "elastic_ep_initial_size")
        yield _needs(offset + tensor <= view.max_ep_size, "the group would exceed its limit", "max_ep_size")
        yield _needs(
            tensor > 1 or view.moe_dense_tp_size == 1, "one rank holds dense layers whole", "moe_dense_tp_size"
        )
    else:
        if size is None:
            size = tensor
            yield suggest("elastic_ep_initial_size", size, "the group starts with this server")
        yield _needs(size == tensor, "the group starts with this server", "elastic_ep_initial_size", "tp_size")
    plan = plan_of(view, facts)
    captured = any(phase["backend"] != DISABLED for phase in plan.values())
    for condition, name in (
        (view.elastic_ep_scale_timeout > 0, "elastic_ep_scale_timeout"),
        (view.tokenizer_worker_num == 1, "tokenizer_worker_num"),
        (not view.use_ray, "use_ray"),
        (not view.enable_elastic_expert_backup, "enable_elastic_expert_backup"),
        (view.load_balance_method == "round_robin", "load_balance_method"),
        (view.elastic_ep_backend == "mooncake", "elastic_ep_backend"),
        (not captured, "cuda_graph_config"),
        (view.enable_dp_attention, "enable_dp_attention"),
        (view.enable_dp_lm_head, "enable_dp_lm_head"),
        (view.attn_cp_size == 1, "attn_cp_size"),
        (view.moe_dp_size == 1, "moe_dp_size"),
        (view.ep_size == tensor, "ep_size"),
        (view.dp_size == tensor, "dp_size"),
        (view.moe_a2a_backend == "nixl", "moe_a2a_backend"),
    ):
        yield _needs(bool(condition), "a group that grows is made of equal replicas of one rank each", name)


def _needs(condition: bool, because: str, *fields: str) -> Declaration:
    return require(condition, because, fields=fields, kind="AssertionError")


RULES = in_order(elastic_experts)
