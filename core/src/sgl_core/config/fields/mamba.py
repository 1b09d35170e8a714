"""State-space and linear-attention layers."""

from __future__ import annotations

from ..declare import OldFlag, Subject, field, from_registry


class Mamba(Subject):
    """Mamba and linear attention."""

    namespace = "exec.mamba"
    title = "Mamba and linear attention"

    mamba_backend = field(str, "triton", "Kernels for Mamba state updates.", choices=("triton", "flashinfer"))
    mamba_ssm_dtype = field(
        str | None,
        None,
        "Data type of layer states. Unset: as the model says.",
        choices=("float32", "bfloat16", "float16"),
    )
    mamba_max_states_per_path = field(int, -1, "Cached states along one prefix path; -1 no limit.")
    enable_mamba_cache_stochastic_rounding = field(
        bool, False, "Round float16 states stochastically, to keep their mean right."
    )
    mamba_cache_philox_rounds = field(int, 0, "Random-number rounds of stochastic rounding; 0 the kernel's default.")
    mamba_radix_cache_strategy = field(
        str,
        "auto",
        "How layer states are kept for shared prefixes.",
        choices=("auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"),
        old_flags=(OldFlag("--mamba-scheduler-strategy", use="--mamba-radix-cache-strategy"),),
        resolvable=True,
    )
    uses_mamba_radix_cache = field(
        bool,
        False,
        "Whether the model's states go through the prefix cache. Decided by rules, not by hand.",
        cli=False,
        resolvable=True,
    )
    mamba_track_interval = field(int, 256, "Decode steps between two kept states.")
    enable_int8_mamba_checkpoint = field(bool, False, "Keep cached states as 8-bit integers: about twice as many.")
    int8_mamba_ckpt_size = field(int | None, None, "Slots for 8-bit states. Unset: twice the active ones.")
    linear_attn_backend = field(
        str, "triton", "Kernels for linear attention (GDN, KDA).", choices=from_registry("linear_attention")
    )
    linear_attn_decode_backend = field(
        str | None,
        None,
        "Kernels for linear attention while decoding. Unset: --linear-attn-backend.",
        choices=from_registry("linear_attention"),
    )
    linear_attn_prefill_backend = field(
        str | None,
        None,
        "Kernels for linear attention while prefilling. Unset: --linear-attn-backend.",
        choices=from_registry("linear_attention"),
    )
    linear_attn_verify_backend = field(
        str | None,
        None,
        "Kernels for linear attention while verifying guesses. Unset: follows decoding.",
        choices=from_registry("linear_attention", "nv_cutedsl"),
    )
    enable_linear_replayssm = field(
        bool, False, "Decode linear attention from a buffer of recent inputs, writing the state only now and then."
    )
    linear_replayssm_cache_len = field(int, 16, "Steps held in the buffer of --enable-linear-replayssm.")
    enable_linear_replayssm_spec = field(
        bool,
        False,
        "Verify guesses in linear attention from a buffer of recent inputs instead of a state per guess.",
        old_flags=(OldFlag("--enable-gdn-replayssm-spec", use="--enable-linear-replayssm-spec", store=True),),
    )
