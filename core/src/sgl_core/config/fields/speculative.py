"""Speculative decoding."""

from __future__ import annotations

from typing import Literal

from ..declare import OldFlag, Subject, field, from_registry


class Speculative(Subject):
    """Speculative decoding."""

    namespace = "spec"
    title = "Speculative decoding"

    speculative_algorithm = field(str | None, None, "")
    uno_lora_path = field(str | None, None, "")
    speculative_draft_model_path = field(str | None, None, "", aliases=("--speculative-draft-model",))
    speculative_draft_model_revision = field(str | None, None, "")
    speculative_draft_load_format = field(str | None, None, "", choices=from_registry("load_formats", "auto"))
    speculative_num_steps = field(int | None, None, "")
    speculative_eagle_topk = field(int | None, None, "")
    speculative_num_draft_tokens = field(int | None, None, "")
    speculative_dflash_block_size = field(int | None, None, "")
    speculative_dspark_block_size = field(int | None, None, "")
    speculative_dspark_sps_table_path = field(str | None, None, "")
    speculative_dspark_confidence_sts_path = field(str | None, None, "")
    speculative_dspark_align_verify_tokens_to_graph_tier = field(bool, False, "")
    speculative_accept_threshold_single = field(float, 1.0, "")
    speculative_accept_threshold_acc = field(float, 1.0, "")
    speculative_use_rejection_sampling = field(bool, False, "")
    speculative_token_map = field(str | None, None, "")
    speculative_attention_mode = field(str, "prefill", "", choices=("prefill", "decode"), resolvable=True)
    speculative_draft_attention_backend = field(str | None, None, "", resolvable=True)
    speculative_dsa_topk_backend = field(str, "sgl-kernel", "", choices=("sgl-kernel", "torch", "flashinfer"))
    speculative_draft_kv_cache_dtype = field(
        str | None, None, "", choices=("auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16")
    )
    speculative_draft_window_size = field(
        int | None,
        None,
        "",
        old_flags=(OldFlag("--speculative-dflash-draft-window-size", use="--speculative-draft-window-size"),),
    )
    speculative_moe_runner_backend = field(
        str | None, None, "", choices=from_registry("moe_runners", "auto"), resolvable=True
    )
    speculative_moe_a2a_backend = field(
        str | None, None, "", choices=from_registry("moe_dispatchers", "none"), resolvable=True
    )
    speculative_draft_model_quantization = field(str | None, None, "", choices=from_registry("quantization", "unquant"))
    _speculative_draft_quantization_explicitly_set = field(bool | None, None, "", cli=False)
    speculative_skip_dp_mlp_sync = field(bool, False, "")
    enable_multi_layer_eagle = field(bool, False, "", resolvable=True)
    speculative_adaptive = field(bool, False, "")
    speculative_adaptive_config = field(str | None, None, "")
    spec_trace_dir = field(str | None, None, "")


class Ngram(Subject):
    """N-gram speculation."""

    namespace = "spec"
    title = "N-gram speculation"

    speculative_ngram_min_bfs_breadth = field(int, 1, "")
    speculative_ngram_max_bfs_breadth = field(int, 10, "")
    speculative_ngram_match_type = field(Literal["BFS", "PROB"], "BFS", "")
    speculative_ngram_max_trie_depth = field(int, 18, "")
    speculative_ngram_capacity = field(int, 10_000_000, "")
    speculative_ngram_external_corpus_path = field(str | None, None, "")
    speculative_ngram_external_sam_budget = field(int, 0, "")
    speculative_ngram_external_corpus_max_tokens = field(int, 10_000_000, "")
