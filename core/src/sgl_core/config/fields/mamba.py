"""State-space and linear-attention layers."""

from __future__ import annotations

from ..declare import OldFlag, Subject, field, from_registry


class Mamba(Subject):
    """Mamba and linear attention."""

    namespace = "exec.mamba"
    title = "Mamba and linear attention"

    mamba_backend = field(str, "triton", "", choices=("triton", "flashinfer"))
    mamba_ssm_dtype = field(str | None, None, "", choices=("float32", "bfloat16", "float16"))
    mamba_max_states_per_path = field(int, -1, "")
    enable_mamba_cache_stochastic_rounding = field(bool, False, "")
    mamba_cache_philox_rounds = field(int, 0, "")
    mamba_radix_cache_strategy = field(
        str,
        "auto",
        "",
        choices=("auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"),
        old_flags=(OldFlag("--mamba-scheduler-strategy", use="--mamba-radix-cache-strategy"),),
        resolvable=True,
    )
    uses_mamba_radix_cache = field(bool, False, "", cli=False, resolvable=True)
    mamba_track_interval = field(int, 256, "")
    enable_int8_mamba_checkpoint = field(bool, False, "")
    int8_mamba_ckpt_size = field(int | None, None, "")
    linear_attn_backend = field(str, "triton", "", choices=from_registry("linear_attention"))
    linear_attn_decode_backend = field(str | None, None, "", choices=from_registry("linear_attention"))
    linear_attn_prefill_backend = field(str | None, None, "", choices=from_registry("linear_attention"))
    linear_attn_verify_backend = field(str | None, None, "", choices=from_registry("linear_attention", "nv_cutedsl"))
    enable_linear_replayssm = field(bool, False, "")
    linear_replayssm_cache_len = field(int, 16, "")
    enable_linear_replayssm_spec = field(
        bool,
        False,
        "",
        old_flags=(OldFlag("--enable-gdn-replayssm-spec", use="--enable-linear-replayssm-spec", store=True),),
    )
