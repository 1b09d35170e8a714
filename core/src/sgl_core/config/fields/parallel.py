"""How the model is spread over devices and hosts."""

from __future__ import annotations

from ..declare import OldFlag, Subject, field


class Parallel(Subject):
    """Parallelism."""

    namespace = "parallel"
    title = "Parallelism"

    nccl_port = field(int | None, None, "")
    dist_timeout = field(int | None, None, "")
    dist_init_addr = field(str | None, None, "", aliases=("--nccl-init-addr",))
    gated_launch_port = field(int | None, None, "")
    nnodes = field(int, 1, "")
    node_rank = field(int, 0, "")
    tp_size = field(int, 1, "", aliases=("--tensor-parallel-size",))
    dcp_size = field(int, 1, "", aliases=("--decode-context-parallel-size",))
    pp_size = field(int, 1, "", aliases=("--pipeline-parallel-size",))
    pp_max_micro_batch_size = field(int | None, None, "")
    pp_async_batch_depth = field(int, 0, "")
    dp_size = field(int, 1, "", aliases=("--data-parallel-size",))
    load_balance_method = field(
        str, "auto", "", choices=("auto", "round_robin", "follow_bootstrap_room", "total_requests", "total_tokens")
    )
    attn_cp_size = field(int, 1, "", aliases=("--attention-context-parallel-size",), resolvable=True)
    moe_dp_size = field(int, 1, "", aliases=("--moe-data-parallel-size",))
    dwdp_size = field(int, 1, "")
    dcp_comm_backend = field(str, "ag_rs", "", choices=("ag_rs", "a2a", "fi_a2a"), resolvable=True)
    dcp_replicate_q_proj = field(bool | None, None, "", pair=True, resolvable=True)
    enable_prefill_cp = field(bool, False, "")
    cp_strategy = field(str | None, None, "", choices=("zigzag", "interleave"))
    enable_dsa_cache_layer_split = field(bool, False, "")
    enable_dsa_prefill_context_parallel = field(
        bool,
        False,
        "",
        old_flags=(OldFlag("--enable-nsa-prefill-context-parallel", use="--enable-prefill-cp", store=True),),
        cli=False,
        replaced_by="enable_prefill_cp",
    )
    dsa_prefill_cp_mode = field(
        str,
        "round-robin-split",
        "",
        old_flags=(OldFlag("--nsa-prefill-cp-mode", use="--cp-strategy"),),
        cli=False,
        replaced_by="cp_strategy",
    )
    enable_prefill_context_parallel = field(
        bool,
        False,
        "",
        old_flags=(OldFlag("--enable-prefill-context-parallel", use="--enable-prefill-cp", store=True),),
        cli=False,
        replaced_by="enable_prefill_cp",
    )
    prefill_cp_mode = field(str, "in-seq-split", "", cli=False, replaced_by="cp_strategy")
    enable_cp_decode_attn_tp = field(bool, False, "")
    enable_dp_attention = field(bool, False, "", resolvable=True)
    enable_dp_attention_local_control_broadcast = field(bool, False, "")
    enable_dp_lm_head = field(bool, False, "", resolvable=True)
    enable_tp_lm_head_all_to_all = field(bool | None, None, "", pair=True, resolvable=True)
    enable_attn_tp_input_scattered = field(bool, False, "")
    enable_shared_experts_attn_tp = field(bool, False, "")
    enable_dense_mlp_attn_tp = field(bool, False, "")
    enable_layernorm_sp = field(bool, False, "")
    disable_attn_tp_gather = field(bool, False, "")
    enable_p2p_check = field(bool, False, "")


class ExpertRanks(Subject):
    """Expert ranks."""

    namespace = "parallel"
    title = "Expert ranks"

    ep_size = field(int, 1, "", aliases=("--expert-parallel-size", "--ep"), resolvable=True)
    moe_dense_tp_size = field(int | None, None, "", resolvable=True)
    ep_join_rank_offset = field(int, 0, "", flag="--elastic-ep-join-rank-offset")
    elastic_ep_initial_size = field(int | None, None, "")
    max_ep_size = field(int | None, None, "")
