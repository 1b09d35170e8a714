"""MiMo V2: several draft layers, FP8 experts, a fused projection stored for one group size."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule

from ..asking import fill, in_order
from ..machine import is_sm100

MIMO_V2 = ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM")


@rule(
    stage="model",
    architectures=MIMO_V2,
    reads=("speculative_algorithm", "moe_runner_backend", "enable_multi_layer_eagle"),
    writes=("enable_multi_layer_eagle", "moe_runner_backend"),
    before=("state_cache",),
)
def mimo_experts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """One draft layer per step; FP8 experts use the TensorRT-LLM runner on SM100."""
    if view.speculative_algorithm == "EAGLE" and not view.enable_multi_layer_eagle:
        yield force("enable_multi_layer_eagle", True, "the checkpoint has a draft layer per step")
    if is_sm100(facts) and view.moe_runner_backend == "auto" and model.quant_method == "fp8":
        yield fill(view, "moe_runner_backend", "flashinfer_trtllm", "the fastest runner for FP8 experts on this GPU")


@rule(
    stage="model",
    architectures=("MiMoV2ForCausalLM",),
    reads=("tp_size", "dp_size", "enable_dp_attention", "attn_cp_size", "encoder_only"),
    after=("mimo_experts",),
    before=("state_cache",),
)
def mimo_projection(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """A fused projection is stored interleaved for as many ranks as there are key-value heads."""
    layout = model.hf_config.get("attention_projection_layout")
    if view.encoder_only or layout is None:
        return
    yield require(layout == "fused_qkv", f"projection layout {layout!r} is unknown", fields=("model_path",))
    yield require(model.num_kv_heads > 0, "config.json does not say num_key_value_heads", fields=("model_path",))
    replicas = view.dp_size if view.enable_dp_attention else 1
    group = view.tp_size // replicas // view.attn_cp_size
    yield require(
        model.num_kv_heads % max(group, 1) == 0,
        f"the projection is stored for {model.num_kv_heads} ranks, and an attention group would have {group}",
        fix=f"choose tp_size, dp_size and attn_cp_size so that a group has {model.num_kv_heads} ranks",
        fields=("tp_size", "dp_size", "attn_cp_size"),
    )


RULES = in_order(mimo_experts, mimo_projection)
