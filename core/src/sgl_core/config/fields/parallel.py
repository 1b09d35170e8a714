"""How the model is spread over devices and hosts."""

from __future__ import annotations

from ..declare import OldFlag, Subject, field


class Parallel(Subject):
    """Parallelism."""

    namespace = "parallel"
    title = "Parallelism"

    nccl_port = field(int | None, None, "Port of the collective library's rendezvous. Unset picks a free one.")
    dist_timeout = field(int | None, None, "Seconds after which setting up the distributed group fails.")
    dist_init_addr = field(
        str | None, None, "HOST:PORT of node 0, where the nodes of one server meet.", aliases=("--nccl-init-addr",)
    )
    gated_launch_port = field(
        int | None, None, "Hold every rank before it takes device memory until a controller on this port lets it go."
    )
    nnodes = field(int, 1, "Hosts over which one server spreads.")
    node_rank = field(int, 0, "This host's number, from 0.")
    tp_size = field(
        int,
        1,
        "Devices over which each layer is split (tensor parallelism). Raise it when the model does not fit one device.",
        aliases=("--tensor-parallel-size",),
    )
    dcp_size = field(
        int, 1, "Devices over which the context is split while decoding.", aliases=("--decode-context-parallel-size",)
    )
    pp_size = field(
        int, 1, "Pipeline stages: groups of layers on different devices.", aliases=("--pipeline-parallel-size",)
    )
    pp_max_micro_batch_size = field(int | None, None, "Most requests in one pipeline micro-batch.")
    pp_async_batch_depth = field(int, 0, "Micro-batches under way beyond the number of stages.")
    dp_size = field(
        int,
        1,
        "Replicas of the model, or of attention alone with --enable-dp-attention.",
        aliases=("--data-parallel-size",),
    )
    load_balance_method = field(
        str,
        "auto",
        "How requests are spread over replicas. auto chooses by the serving mode.",
        choices=("auto", "round_robin", "follow_bootstrap_room", "total_requests", "total_tokens"),
    )
    attn_cp_size = field(
        int,
        1,
        "Devices over which the context is split in attention while prefilling.",
        aliases=("--attention-context-parallel-size",),
        resolvable=True,
    )
    moe_dp_size = field(int, 1, "Replicas of the expert layers.", aliases=("--moe-data-parallel-size",))
    dwdp_size = field(int, 1, "Devices that hold a share of the expert weights each and fetch the rest ahead of use.")
    dcp_comm_backend = field(
        str,
        "ag_rs",
        "How the parts of a context-split decode are joined.",
        choices=("ag_rs", "a2a", "fi_a2a"),
        resolvable=True,
    )
    dcp_replicate_q_proj = field(
        bool | None,
        None,
        "Compute all query heads on each rank of a context-split decode, to save an exchange.",
        pair=True,
        resolvable=True,
    )
    enable_prefill_cp = field(bool, False, "Split long prompts over devices while prefilling.")
    cp_strategy = field(
        str | None,
        None,
        "How a prompt is cut: zigzag balances causal attention in two pieces, interleave deals tokens in turn.",
        choices=("zigzag", "interleave"),
    )
    enable_dsa_cache_layer_split = field(
        bool, False, "Spread the sparse-attention cache of different layers over the context-parallel ranks."
    )
    enable_dsa_prefill_context_parallel = field(
        bool,
        False,
        "Old name of --enable-prefill-cp for sparse-attention models.",
        old_flags=(OldFlag("--enable-nsa-prefill-context-parallel", use="--enable-prefill-cp", store=True),),
        cli=False,
        replaced_by="enable_prefill_cp",
    )
    dsa_prefill_cp_mode = field(
        str,
        "round-robin-split",
        "Old name of --cp-strategy for sparse-attention models.",
        old_flags=(OldFlag("--nsa-prefill-cp-mode", use="--cp-strategy"),),
        cli=False,
        replaced_by="cp_strategy",
    )
    enable_prefill_context_parallel = field(
        bool,
        False,
        "Old name of --enable-prefill-cp.",
        old_flags=(OldFlag("--enable-prefill-context-parallel", use="--enable-prefill-cp", store=True),),
        cli=False,
        replaced_by="enable_prefill_cp",
    )
    prefill_cp_mode = field(str, "in-seq-split", "Old name of --cp-strategy.", cli=False, replaced_by="cp_strategy")
    enable_cp_decode_attn_tp = field(
        bool, False, "Split attention weights over the context-parallel ranks while decoding."
    )
    enable_dp_attention = field(
        bool,
        False,
        "Split requests over devices in attention and experts over all of them. Saves KV memory for MLA models at high load.",
        resolvable=True,
    )
    enable_dp_attention_local_control_broadcast = field(
        bool, False, "Send control messages to each attention group by itself instead of through all ranks."
    )
    enable_dp_lm_head = field(
        bool, False, "Split the output head inside each attention group, to spare a gather over all.", resolvable=True
    )
    enable_tp_lm_head_all_to_all = field(
        bool | None,
        None,
        "Exchange logits all-to-all instead of gathering them, under data-parallel attention.",
        pair=True,
        resolvable=True,
    )
    enable_attn_tp_input_scattered = field(
        bool, False, "Scatter the input of attention over tensor-parallel ranks to share its first projections."
    )
    enable_shared_experts_attn_tp = field(bool, False, "Split shared experts over the attention group.")
    enable_dense_mlp_attn_tp = field(bool, False, "Split dense MLP layers over the attention group.")
    enable_layernorm_sp = field(
        bool, False, "Split norms and residuals along the sequence (Megatron sequence parallelism)."
    )
    disable_attn_tp_gather = field(
        bool, False, "Do not pad and gather tokens for the attention group before each step."
    )
    enable_p2p_check = field(bool, False, "Test that devices reach each other's memory before using it.")


class ExpertRanks(Subject):
    """Expert ranks."""

    namespace = "parallel"
    title = "Expert ranks"

    ep_size = field(
        int,
        1,
        "Devices over which the experts are spread.",
        aliases=("--expert-parallel-size", "--ep"),
        resolvable=True,
    )
    moe_dense_tp_size = field(
        int | None,
        None,
        "Tensor-parallel size of the dense MLP layers of an expert model. 1 avoids splits that are too thin.",
        resolvable=True,
    )
    ep_join_rank_offset = field(
        int,
        0,
        "First rank of a group that joins an elastic expert-parallel server.",
        flag="--elastic-ep-join-rank-offset",
    )
    elastic_ep_initial_size = field(int | None, None, "Ranks with which the elastic server was first started.")
    max_ep_size = field(int | None, None, "Ranks to which an elastic server may grow.")
