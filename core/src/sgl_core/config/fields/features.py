"""Optional runtime features, overlap, offload, diffusion, determinism."""

from __future__ import annotations

from ..declare import Subject, field, from_registry


class Features(Subject):
    """Runtime features."""

    namespace = "exec.features"
    title = "Runtime features"

    enable_fp32_lm_head = field(
        bool, False, "Compute the logits in float32. Steadier sampling for models whose bfloat16 head is coarse."
    )
    enable_tf32_matmul = field(
        bool,
        False,
        "Let float32 matrix products use TensorFloat-32: faster on CUDA, about three digits less precise.",
        resolvable=True,
    )
    enable_memory_saver = field(
        bool, False, "Allow releasing and restoring device memory at run time (training and serving in turn)."
    )
    enable_weights_cpu_backup = field(bool, False, "Keep weights in host memory while device memory is released.")
    enable_draft_weights_cpu_backup = field(
        bool, False, "Keep the draft model's weights in host memory while device memory is released."
    )
    enable_custom_logit_processor = field(
        bool, False, "Let requests bring Python code that changes logits. Clients can then run code here."
    )
    enable_return_hidden_states = field(bool, False, "Let requests ask for hidden states of all positions.")
    return_hidden_states_mode = field(
        str | None, None, "Most that requests may ask for: the last position, or all.", choices=("last", "full")
    )
    enable_return_routed_experts = field(bool, False, "Let requests ask which experts were chosen.")
    enable_return_indexer_topk = field(bool, False, "Let requests ask which positions sparse attention selected.")
    disable_outlines_disk_cache = field(bool, False, "Do not keep compiled grammars of outlines on disk.")
    enable_mis = field(bool, False, "Score several items against one query in a single sequence.")


class Overlap(Subject):
    """Batch overlap."""

    namespace = "exec.overlap"
    title = "Batch overlap"

    enable_two_batch_overlap = field(
        bool, False, "Run two half batches so that one computes while the other communicates."
    )
    enable_single_batch_overlap = field(bool, False, "Overlap computing and communicating inside one batch.")
    tbo_token_distribution_threshold = field(
        float, 0.48, "How uneven the halves may be before a prompt is cut in two instead, 0 to 0.5."
    )


class Offload(Subject):
    """Offloading."""

    namespace = "exec.offload"
    title = "Offloading"

    cpu_offload_gb = field(int, 0, "Gigabytes of weights kept in host memory. For models slightly too large; slow.")
    offload_group_size = field(int, -1, "Layers per group for grouped offloading; -1 off.")
    offload_num_in_group = field(int, 1, "Layers of each group that are offloaded.")
    offload_prefetch_step = field(int, 1, "Layers fetched ahead.")
    offload_mode = field(str, "cpu", "Where offloaded layers lie.")


class DiffusionLlm(Subject):
    """Diffusion language models."""

    namespace = "exec.dllm"
    title = "Diffusion language models"

    dllm_algorithm = field(
        str | None, None, "Decoding algorithm of a diffusion language model, for example LowConfidence."
    )
    dllm_algorithm_config = field(str | None, None, "YAML file with settings of the diffusion decoding algorithm.")
    dllm_fdfo = field(bool, True, "Let requests of a diffusion batch leave as soon as they are done.", pair=True)


class Deterministic(Subject):
    """Deterministic inference."""

    namespace = "exec.deterministic"
    title = "Deterministic inference"

    enable_deterministic_inference = field(
        bool, False, "Give the same answer whatever else is in the batch. Slower; narrows the choice of kernels."
    )
    rl_on_policy_target = field(
        str | None,
        None,
        "Training system whose numbers serving must match exactly.",
        choices=from_registry("rl_on_policy_targets"),
    )
