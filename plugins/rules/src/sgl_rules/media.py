"""Whether media are served, and how features of media travel between processes."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, set_env

from .asking import fill, in_order
from .machine import is_cuda, switch

_TEXT_FIRST = frozenset(
    {
        "Gemma3ForConditionalGeneration",
        "InklingForConditionalGeneration",
        "Llama4ForConditionalGeneration",
        "Step3VLForConditionalGeneration",
    }
)
"""Models that most people serve for text: media are on only when asked for."""

_NO_CHUNKED_MEDIA = frozenset(
    {
        "CLIPModel",
        "Grok1AForCausalLM",
        "Grok1VForCausalLM",
        "LlavaLlamaForCausalLM",
        "MllamaForConditionalGeneration",
        "MossVLForConditionalGeneration",
    }
)


def media_enabled(view: View, model: ModelInfo) -> bool:
    """Whether media inputs are switched on, by the user or by what is usual for the architecture."""
    if view.enable_multimodal is not None:
        return bool(view.enable_multimodal)
    if model.architecture in _TEXT_FIRST:
        return bool(view.model_impl == "transformers")
    if model.architecture == "MiMoV2ForCausalLM":
        return "vision_config" in model.hf_config and "audio_config" in model.hf_config
    return True


def takes_media(view: View, model: ModelInfo) -> bool:
    """Whether this server takes media: the model can, and nothing switched it off."""
    text_only = bool(model.hf_config.get("language_model_only", False))
    return media_enabled(view, model) and model.is_multimodal and not text_only


@rule(
    stage="features",
    reads=(
        "mm_feature_transport",
        "keep_mm_feature_on_device",
        "encoder_only",
        "disaggregation_mode",
        "nnodes",
        "enable_multimodal",
        "model_impl",
        "pp_size",
    ),
    writes=("mm_feature_transport", "keep_mm_feature_on_device"),
    after=("tokenizer_batching",),
)
def media_transport(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Features of media go through host memory unless CUDA handles can be shared."""
    asked = view.mm_feature_transport
    if view.keep_mm_feature_on_device:
        yield require(
            asked in (None, "cuda_ipc"),
            "keeping features on the device means sharing CUDA handles",
            fix="drop --keep-mm-feature-on-device",
            fields=("keep_mm_feature_on_device", "mm_feature_transport"),
        )
        asked = "cuda_ipc"
        yield force("keep_mm_feature_on_device", False, "replaced by mm_feature_transport=cuda_ipc")
    transport = asked
    if transport is None:
        transport = "cpu"
        if "SGLANG_USE_CUDA_IPC_TRANSPORT" in facts.env:
            transport = "cuda_ipc" if switch(facts, "SGLANG_USE_CUDA_IPC_TRANSPORT") else "cpu"
        elif (
            takes_media(view, model)
            and is_cuda(facts)
            and view.disaggregation_mode == "null"
            and view.nnodes > 1
            and facts.has("mnnvl_fabric")
            and facts.has("imex_channel")
            and not view.encoder_only
        ):
            transport = "cuda_vmm"
    if view.encoder_only and transport != "cpu":
        transport = "cpu"
    if transport in ("cuda_ipc", "cuda_vmm"):
        yield require(is_cuda(facts), f"{transport} shares CUDA memory", fields=("mm_feature_transport",))
    yield require(
        transport != "cuda_vmm" or (view.pp_size == 1 and not switch(facts, "SGLANG_RUST_SERVER")),
        "fabric handles reach the ranks of one pipeline stage only",
        fields=("mm_feature_transport", "pp_size"),
    )
    yield require(
        transport != "cuda_ipc" or view.nnodes == 1,
        "CUDA handles are shared within one machine",
        fields=("mm_feature_transport", "nnodes"),
    )
    because = "host memory works between any two processes" if transport == "cpu" else "features stay on the device"
    if transport != view.mm_feature_transport:
        yield fill(view, "mm_feature_transport", transport, because)
    yield set_env("SGLANG_USE_CUDA_IPC_TRANSPORT", "1" if transport == "cuda_ipc" else "0", because)


@rule(
    stage="checks",
    reads=("chunked_prefill_size", "enable_multimodal", "model_impl"),
    writes=("chunked_prefill_size",),
    after=("prefix_lm_whole",),
)
def media_in_one_chunk(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Some models attend to a whole image at once, which a chunk border would cut."""
    whole = model.architecture in _NO_CHUNKED_MEDIA
    if whole and takes_media(view, model) and view.chunked_prefill_size != -1:
        yield force("chunked_prefill_size", -1, f"{model.architecture} cannot split a prompt with media")


RULES = in_order(media_transport, media_in_one_chunk)
