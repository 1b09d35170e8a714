"""Nemotron-H: Mamba, attention and expert layers, in ModelOpt formats."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, require, rule, suggest

from ..asking import algorithm, backends_unset, fill, in_order
from ..machine import is_blackwell, is_cuda, is_sm100
from ..quantization import served_method

NEMOTRON = ("NemotronHForCausalLM", "NemotronHPuzzleForCausalLM")
_MODELOPT = ("modelopt", "modelopt_fp8", "modelopt_fp4", "modelopt_mixed")
_FP4 = ("modelopt_fp4", "modelopt_mixed")


def _has_w4a16_experts(model: ModelInfo) -> bool:
    layers = model.quant_config.get("quantized_layers") or {}
    return any(".experts." in name and info.get("quant_algo") == "W4A16_NVFP4" for name, info in layers.items())


@rule(
    stage="model",
    architectures=NEMOTRON,
    reads=("quantization", "moe_runner_backend", "moe_a2a_backend"),
    writes=("quantization", "moe_runner_backend"),
    before=("state_cache",),
)
def nemotron_experts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Squared-ReLU experts in ModelOpt formats, by format and GPU."""
    method = served_method(view.quantization, facts, model)
    modelopt = method in _MODELOPT
    runner, dispatcher = view.moe_runner_backend, view.moe_a2a_backend
    if modelopt:
        yield require(
            model.hf_config.get("mlp_hidden_act") == "relu2",
            "the experts' kernels apply a squared ReLU",
            fields=("quantization",),
            kind="AssertionError",
        )
        if view.quantization != method:
            yield fill(view, "quantization", method, "the checkpoint says so")
    if method == "modelopt_mixed" and _has_w4a16_experts(model):
        for condition, name in ((dispatcher == "none", "moe_a2a_backend"), (runner in ("auto", "marlin"), None)):
            yield require(
                condition,
                "experts with four-bit weights and plain activations run in Marlin, without a dispatcher",
                fields=(name or "moe_runner_backend",),
            )
        if runner == "auto":
            yield fill(view, "moe_runner_backend", "marlin", "the runner for four-bit weights and plain activations")
    elif runner == "auto" and (modelopt or method is None):
        if is_sm100(facts) and dispatcher == "none":
            yield fill(view, "moe_runner_backend", "flashinfer_trtllm", "the fastest runner on this GPU")
        elif method in _FP4 and is_cuda(facts) and 80 <= facts.arch < 100:
            yield fill(view, "moe_runner_backend", "marlin", "this GPU multiplies four bits by unpacking them")
        else:
            yield fill(view, "moe_runner_backend", "flashinfer_cutlass", "it applies the squared ReLU")


@rule(
    stage="model",
    architectures=NEMOTRON,
    reads=(
        "attention_backend",
        "speculative_algorithm",
        "speculative_eagle_topk",
        "page_size",
        "decode_attention_backend",
        "mamba_radix_cache_strategy",
        "prefill_attention_backend",
        "speculative_draft_attention_backend",
    ),
    writes=(
        "attention_backend",
        "page_size",
        "mamba_radix_cache_strategy",
        "speculative_draft_attention_backend",
    ),
    after=("nemotron_experts",),
    before=("state_cache",),
)
def nemotron_attention(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Attention on Blackwell, with and without drafts."""
    if not is_blackwell(facts) or not backends_unset(view):
        return
    spec, draft = algorithm(view), view.speculative_draft_attention_backend
    if not spec:
        if is_sm100(facts):
            yield suggest("attention_backend", "trtllm_mha", "the fastest attention kernel on this GPU")
        return
    if is_sm100(facts) and view.speculative_eagle_topk in (None, 1):
        yield suggest("attention_backend", "trtllm_mha", "it verifies a chain of drafts")
        if view.page_size is None:
            yield suggest("page_size", 64, "trtllm_mha reads pages of 64 tokens well")
        if view.mamba_radix_cache_strategy == "auto":
            yield fill(view, "mamba_radix_cache_strategy", "extra_buffer", "pages need snapshots of the state")
        if draft is None and spec in ("EAGLE", "NEXTN", "DSPARK"):
            yield suggest("speculative_draft_attention_backend", "trtllm_mha", "the draft shares the model's pages")
        return
    yield suggest("attention_backend", "triton", "it verifies trees of drafts")
    if draft is None and spec in ("EAGLE", "NEXTN", "DFLASH", "DSPARK"):
        yield suggest("speculative_draft_attention_backend", "flashinfer", "the faster kernel for the draft")


RULES = in_order(nemotron_experts, nemotron_attention)
