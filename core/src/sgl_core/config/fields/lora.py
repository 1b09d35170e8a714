"""LoRA adapters."""

from __future__ import annotations

from ..declare import Subject, field, from_registry


class Lora(Subject):
    """LoRA."""

    namespace = "lora"
    title = "LoRA"

    enable_lora = field(bool | None, None, "")
    enable_lora_overlap_loading = field(bool | None, None, "")
    max_lora_rank = field(int | None, None, "")
    lora_target_modules = field(
        set[str] | list[str] | None,
        None,
        "",
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
        dict[str, str] | list[dict[str, str]] | list[str] | None, None, "", parse="lora_paths", nargs="*"
    )
    max_loaded_loras = field(int | None, None, "")
    max_loras_per_batch = field(int, 8, "")
    lora_eviction_policy = field(str, "lru", "", choices=("lru", "fifo"))
    lora_backend = field(str, "csgmv", "", choices=from_registry("lora_backends"))
    max_lora_chunk_size = field(int | None, 16, "", choices=(16, 32, 64, 128))
    experts_shared_outer_loras = field(bool | None, None, "", pair=True)
    lora_use_virtual_experts = field(bool, False, "")
    lora_strict_loading = field(bool, False, "", pair=True)
    lora_drain_wait_threshold = field(float, 0.0, "")
