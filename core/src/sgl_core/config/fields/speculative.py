"""Speculative decoding."""

from __future__ import annotations

from typing import Literal

from ..declare import OldFlag, Subject, field, from_registry


class Speculative(Subject):
    """Speculative decoding."""

    namespace = "spec"
    title = "Speculative decoding"

    speculative_algorithm = field(
        str | None, None, "How tokens are guessed ahead: EAGLE, EAGLE3, STANDALONE, NGRAM and what packages add."
    )
    uno_lora_path = field(str | None, None, "Adapter that turns the model into its own drafter (UNO).")
    speculative_draft_model_path = field(
        str | None, None, "The draft model: a folder or repository id.", aliases=("--speculative-draft-model",)
    )
    speculative_draft_model_revision = field(str | None, None, "Branch, tag or commit of the draft model.")
    speculative_draft_load_format = field(
        str | None,
        None,
        "Format of the draft model's weight files. Unset: as --load-format.",
        choices=from_registry("load_formats", "auto"),
    )
    speculative_num_steps = field(
        int | None, None, "Draft steps per verification. More pay off when most guesses are accepted."
    )
    speculative_eagle_topk = field(int | None, None, "Branches per draft step; 1 is a chain.")
    speculative_num_draft_tokens = field(int | None, None, "Tokens verified at once.")
    speculative_dflash_block_size = field(int | None, None, "Tokens per DFLASH block.")
    speculative_dspark_block_size = field(int | None, None, "Tokens per DSPARK draft; one more is verified.")
    speculative_dspark_sps_table_path = field(str | None, None, "JSON table of measured step costs for DSPARK.")
    speculative_dspark_confidence_sts_path = field(str | None, None, "JSON calibration of DSPARK's confidence.")
    speculative_dspark_align_verify_tokens_to_graph_tier = field(
        bool, False, "Fill DSPARK's verification up to the captured graph size."
    )
    speculative_accept_threshold_single = field(
        float, 1.0, "Accept a guess whose probability exceeds this. Below 1 is faster and changes the distribution."
    )
    speculative_accept_threshold_acc = field(
        float, 1.0, "Divide a guess's probability by this before the test. Below 1 accepts more."
    )
    speculative_use_rejection_sampling = field(
        bool, False, "Keep the exact distribution by rejection sampling (chains only)."
    )
    speculative_token_map = field(str | None, None, "File with the draft model's reduced vocabulary.")
    speculative_attention_mode = field(
        str,
        "prefill",
        "Which attention kernels verify: those of prefilling or of decoding.",
        choices=("prefill", "decode"),
        resolvable=True,
    )
    speculative_draft_attention_backend = field(
        str | None, None, "Attention kernels of the draft model.", resolvable=True
    )
    speculative_dsa_topk_backend = field(
        str,
        "sgl-kernel",
        "Sparse-attention selection of the draft model.",
        choices=("sgl-kernel", "torch", "flashinfer"),
    )
    speculative_draft_kv_cache_dtype = field(
        str | None,
        None,
        "KV data type of the draft model.",
        choices=("auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16"),
    )
    speculative_draft_window_size = field(
        int | None,
        None,
        "Sliding window of the draft model, in tokens.",
        old_flags=(OldFlag("--speculative-dflash-draft-window-size", use="--speculative-draft-window-size"),),
    )
    speculative_moe_runner_backend = field(
        str | None,
        None,
        "Expert kernels of the draft model.",
        choices=from_registry("moe_runners", "auto"),
        resolvable=True,
    )
    speculative_moe_a2a_backend = field(
        str | None,
        None,
        "Expert exchange of the draft model.",
        choices=from_registry("moe_dispatchers", "none"),
        resolvable=True,
    )
    speculative_draft_model_quantization = field(
        str | None,
        None,
        "Quantization of the draft model. Unset: as --quantization.",
        choices=from_registry("quantization", "unquant"),
    )
    _speculative_draft_quantization_explicitly_set = field(
        bool | None, None, "Whether the operator chose the draft's quantization. Kept by rules.", cli=False
    )
    speculative_skip_dp_mlp_sync = field(bool, False, "Skip one exchange per batch under data-parallel attention.")
    enable_multi_layer_eagle = field(bool, False, "Use a draft model of several layers, one per step.", resolvable=True)
    speculative_adaptive = field(bool, False, "Change the number of draft steps with the acceptance rate.")
    speculative_adaptive_config = field(str | None, None, "JSON file with the settings of adaptive speculation.")
    spec_trace_dir = field(str | None, None, "Folder for traces of decoupled speculation.")


class Ngram(Subject):
    """N-gram speculation."""

    namespace = "spec"
    title = "N-gram speculation"

    speculative_ngram_min_bfs_breadth = field(int, 1, "Least branches of an n-gram guess.")
    speculative_ngram_max_bfs_breadth = field(int, 10, "Most branches of an n-gram guess.")
    speculative_ngram_match_type = field(
        Literal["BFS", "PROB"],
        "BFS",
        "How matches become guesses: most recent first (BFS) or most frequent first (PROB).",
    )
    speculative_ngram_max_trie_depth = field(int, 18, "Longest n-gram kept.")
    speculative_ngram_capacity = field(int, 10_000_000, "Tokens that the n-gram store holds.")
    speculative_ngram_external_corpus_path = field(str | None, None, "JSONL file with texts to guess from.")
    speculative_ngram_external_sam_budget = field(int, 0, "Guesses reserved for the external n-gram corpus.")
    speculative_ngram_external_corpus_max_tokens = field(
        int, 10_000_000, "Refuse a corpus longer than this many tokens."
    )
