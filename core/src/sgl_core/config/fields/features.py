"""Optional runtime features, overlap, offload, diffusion, determinism."""

from __future__ import annotations

from ..declare import Subject, field, from_registry


class Features(Subject):
    """Runtime features."""

    namespace = "exec.features"
    title = "Runtime features"

    enable_fp32_lm_head = field(bool, False, "")
    enable_tf32_matmul = field(bool, False, "", resolvable=True)
    enable_memory_saver = field(bool, False, "")
    enable_weights_cpu_backup = field(bool, False, "")
    enable_draft_weights_cpu_backup = field(bool, False, "")
    enable_custom_logit_processor = field(bool, False, "")
    enable_return_hidden_states = field(bool, False, "")
    return_hidden_states_mode = field(str | None, None, "", choices=("last", "full"))
    enable_return_routed_experts = field(bool, False, "")
    enable_return_indexer_topk = field(bool, False, "")
    disable_outlines_disk_cache = field(bool, False, "")
    enable_mis = field(bool, False, "")


class Overlap(Subject):
    """Batch overlap."""

    namespace = "exec.overlap"
    title = "Batch overlap"

    enable_two_batch_overlap = field(bool, False, "")
    enable_single_batch_overlap = field(bool, False, "")
    tbo_token_distribution_threshold = field(float, 0.48, "")


class Offload(Subject):
    """Offloading."""

    namespace = "exec.offload"
    title = "Offloading"

    cpu_offload_gb = field(int, 0, "")
    offload_group_size = field(int, -1, "")
    offload_num_in_group = field(int, 1, "")
    offload_prefetch_step = field(int, 1, "")
    offload_mode = field(str, "cpu", "")


class DiffusionLlm(Subject):
    """Diffusion language models."""

    namespace = "exec.dllm"
    title = "Diffusion language models"

    dllm_algorithm = field(str | None, None, "")
    dllm_algorithm_config = field(str | None, None, "")
    dllm_fdfo = field(bool, True, "", pair=True)


class Deterministic(Subject):
    """Deterministic inference."""

    namespace = "exec.deterministic"
    title = "Deterministic inference"

    enable_deterministic_inference = field(bool, False, "")
    rl_on_policy_target = field(str | None, None, "", choices=from_registry("rl_on_policy_targets"))
