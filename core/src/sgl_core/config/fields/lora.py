"""LoRA adapters."""

from __future__ import annotations

from ..declare import Subject, field, from_registry


class Lora(Subject):
    """LoRA."""

    namespace = "lora"
    title = "LoRA"

    enable_lora = field(bool | None, None, "Serve LoRA adapters. On by itself when --lora-paths names some.")
    enable_lora_overlap_loading = field(bool | None, None, "Copy adapters to the device while it computes.")
    max_lora_rank = field(int | None, None, "Largest adapter rank. Unset follows the adapters given.")
    lora_target_modules = field(
        set[str] | list[str] | None,
        None,
        "Modules to which adapters may apply; all for every supported one. Unset follows the adapters given.",
        choices=(
            "q_proj",
            "k_proj",
            "v_proj",
            "o_proj",
            "q_a_proj",
            "kv_a_proj_with_mqa",
            "q_b_proj",
            "kv_b_proj",
            "wq_b",
            "wk",
            "weights_proj",
            "gate_proj",
            "up_proj",
            "down_proj",
            "qkv_proj",
            "gate_up_proj",
            "embed_tokens",
            "lm_head",
            "qkvr",
            "wo_ud",
            "all",
        ),
        nargs="*",
    )
    lora_paths = field(
        dict[str, str] | list[dict[str, str]] | list[str] | None,
        None,
        "Adapters to load: PATH, NAME=PATH or a JSON object with lora_name and lora_path.",
        parse="lora_paths",
        nargs="*",
    )
    max_loaded_loras = field(int | None, None, "Most adapters in host memory.")
    max_loras_per_batch = field(int, 8, "Most different adapters in one batch, the base model counted.")
    lora_eviction_policy = field(str, "lru", "Which adapter leaves device memory first.", choices=("lru", "fifo"))
    lora_backend = field(str, "csgmv", "Kernels for adapters.", choices=from_registry("lora_backends"))
    max_lora_chunk_size = field(
        int | None, 16, "Most tokens per chunk of the csgmv kernels.", choices=(16, 32, 64, 128)
    )
    experts_shared_outer_loras = field(
        bool | None,
        None,
        "Whether the outer adapter matrices are shared by all experts. Unset follows the adapter.",
        pair=True,
    )
    lora_use_virtual_experts = field(bool, False, "Compute expert adapters as further experts.")
    lora_strict_loading = field(bool, False, "Refuse adapters with missing or unknown weights.", pair=True)
    lora_drain_wait_threshold = field(
        float, 0.0, "Seconds a request may wait for its adapter before another adapter makes room; 0 off."
    )
