"""The entry of each architecture in the models registry."""

from __future__ import annotations

from sgl_core.api import ModelSpec

STACKED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}


def _decoder(name: str, target: str, summary: str) -> ModelSpec:
    return ModelSpec(
        name=name,
        target=f"sgl_models.{target}:{name}",
        summary=summary,
        tasks=("generate", "embed"),
        stacked_weights=STACKED,
    )


LLAMA = _decoder("LlamaForCausalLM", "llama", "Llama 2 and 3, TinyLlama, SmolLM and other models of that body")
MISTRAL = _decoder("MistralForCausalLM", "llama", "Mistral 7B and its successors with a Mistral configuration")
QWEN2 = _decoder("Qwen2ForCausalLM", "qwen2", "Qwen2, Qwen2.5, QwQ")
QWEN3 = _decoder("Qwen3ForCausalLM", "qwen3", "Qwen3 dense models")
MIMO = _decoder("MiMoForCausalLM", "mimo", "Xiaomi MiMo 7B")
