"""Checkpoint formats and LoRA kernels that are known by name and not yet served by another package."""

from __future__ import annotations

from sgl_core.api.specs import LoadFormatSpec, Spec

from .absent import NOT_INSTALLED


def _format(name: str, summary: str, *suffixes: str) -> LoadFormatSpec:
    return LoadFormatSpec(
        name=name, summary=summary, suffixes=suffixes, available=False, unavailable_because=NOT_INSTALLED
    )


def _lora(name: str, summary: str) -> Spec:
    return Spec(name=name, summary=summary, available=False, unavailable_because=NOT_INSTALLED)


FORMAT_NPCACHE = _format("npcache", "weights cached as NumPy files")
FORMAT_SHARDED_STATE = _format("sharded_state", "one file per rank, saved from a running server")
FORMAT_PRESHARDED = _format("presharded", "one file per rank, made beforehand")
FORMAT_EXPERT_PACK = _format("expert_pack", "experts packed in one file, read on demand")
FORMAT_BITSANDBYTES = _format("bitsandbytes", "weights quantized by bitsandbytes while they load")
FORMAT_MISTRAL = _format("mistral", "Mistral's own consolidated files")
FORMAT_LAYERED = _format("layered", "layer by layer, to save memory while quantizing")
FORMAT_FLASH_RL = _format("flash_rl", "quantized again after each training step")
FORMAT_REMOTE = _format("remote", "a remote key-value store")
FORMAT_REMOTE_INSTANCE = _format("remote_instance", "the memory of a running server")
FORMAT_FASTSAFETENSORS = _format("fastsafetensors", "safetensors read straight to the device")
FORMAT_PRIVATE = _format("private", "a loader of the operator's own")
FORMAT_RUNAI_STREAMER = _format("runai_streamer", "streamed from object storage")

LORA_TRITON = _lora("triton", "portable kernels")
LORA_CSGMV = _lora("csgmv", "chunked segmented products")
LORA_ASCEND = _lora("ascend", "kernels for Ascend NPUs")
LORA_TORCH_NATIVE = _lora("torch_native", "the framework's products")
