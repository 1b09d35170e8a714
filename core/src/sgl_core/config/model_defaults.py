"""Tables about published model families: which architectures use MLA, sinks or media, and the values their
configuration classes fill in where a config.json leaves them out."""

from __future__ import annotations

MLA_ARCHITECTURES = frozenset(
    {
        "BailingMoeForCausalLMNextN",
        "BailingMoeV2_5ForCausalLM",
        "BailingMoeV3ForCausalLM",
        "DeepseekV2ForCausalLM",
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLM",
        "DeepseekV3ForCausalLMNextN",
        "Dots3NoteForCausalLM",
        "Dots3NoteForCausalLMNextN",
        "DotsVLMForCausalLM",
        "Eagle3DeepseekV2ForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "Glm4MoeLiteForCausalLMNextN",
        "GlmMoeDsaForCausalLM",
        "GlmMoeDsaForCausalLMNextN",
        "KimiK25ForConditionalGeneration",
        "KimiK3ForConditionalGeneration",
        "KimiK3LinearForCausalLM",
        "KimiLinearForCausalLM",
        "KimiVLForConditionalGeneration",
        "LongcatFlashForCausalLM",
        "LongcatFlashForCausalLMNextN",
        "MiniCPM3ForCausalLM",
        "MistralLarge3ForCausalLM",
        "MistralLarge3ForCausalLMEagle",
        "SarvamMLAForCausalLM",
    }
)
"""Latent key-value compression in the attention layers (two more architectures decide it by a config key)."""

DSA_ARCHITECTURES = frozenset(
    {
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLM",
        "DeepseekV3ForCausalLMNextN",
        "Dots3NoteForCausalLM",
        "Dots3NoteForCausalLMNextN",
        "GlmMoeDsaForCausalLM",
        "GlmMoeDsaForCausalLMNextN",
        "LongcatFlashForCausalLM",
        "LongcatFlashForCausalLMNextN",
        "MistralLarge3ForCausalLM",
        "PixtralForConditionalGeneration",
    }
)
"""Architectures whose ``index_topk`` switches the sparse-attention indexer on."""

SINK_ARCHITECTURES = frozenset({"GptOssForCausalLM", "GraniteMoeSWAForCausalLM", "GraniteSWAForCausalLM"})

ENCODER_DECODER_ARCHITECTURES = frozenset(
    {"MllamaForConditionalGeneration", "MossVLForConditionalGeneration", "WhisperForConditionalGeneration"}
)

MULTIMODAL_ARCHITECTURES = frozenset(
    {
        "CLIPModel",
        "DeepseekOCRForCausalLM",
        "DeepseekVL2ForCausalLM",
        "Dots3NoteForCausalLM",
        "DotsOCRForCausalLM",
        "DotsVLMForCausalLM",
        "Gemma3nForConditionalGeneration",
        "Grok1AForCausalLM",
        "Grok1VForCausalLM",
        "InklingForConditionalGeneration",
        "InklingForConditionalGenerationMTP",
        "LlavaLlamaForCausalLM",
        "LlavaMistralForCausalLM",
        "LlavaQwenForCausalLM",
        "LlavaVidForCausalLM",
        "MiDashengLMModel",
        "MiMoV2ASRForCausalLM",
        "MiMoV2ForCausalLM",
        "MiniCPMO",
        "MiniCPMV",
        "MultiModalityCausalLM",
        "NVILAForConditionalGeneration",
        "NVILALiteForConditionalGeneration",
        "NemotronH_Nano_Omni_Reasoning_V3",
        "NemotronH_Nano_VL_V2",
        "POINTSV15ChatModel",
        "Phi4MMForCausalLM",
        "Sarashina2VisionForCausalLM",
        "UnlimitedOCRForCausalLM",
        "VoxtralForConditionalGeneration",
        "WhisperForConditionalGeneration",
    }
)
"""Architectures that take media though their config.json has no separate text part; the others are seen by that."""

VISION_DEFAULTS: dict[str, tuple[int, int]] = {
    "clip_vision_model": (12, 768),
    "gemma3n": (24, 2048),
    "gemma4_vision": (16, 768),
    "inkling_mm_model": (24, 1024),
    "kimi_k25": (27, 1152),
    "kimi_k3": (27, 1024),
    "llama4_vision_model": (34, 768),
    "minicpmv4_6": (27, 1152),
    "minimax_m3_vl": (24, 1024),
    "pixtral": (24, 1024),
    "qwen3_vl": (24, 1152),
    "qwen3_vl_moe": (24, 1152),
    "qwen3_5": (24, 1152),
    "qwen3_5_moe": (24, 1152),
    "siglip_vision_model": (12, 768),
    "step3p7": (24, 1024),
}
"""(layers, hidden size) by model type or vision model type, where config.json leaves them out."""

VISION_OPAQUE = frozenset({"gemma3n", "inkling_mm_model", "minimax_m3_vl"})
"""Model types whose tower is always weighed by the table: its configuration speaks another language than a ViT's."""

CONTEXT_LENGTH_DEFAULTS: dict[str, int] = {
    "gemma": 8192,
    "gemma2": 8192,
    "gemma3_text": 131072,
    "gemma3n": 32768,
    "gemma3n_text": 32768,
    "gemma4_text": 131072,
    "llama": 2048,
    "llama4_text": 131072,
    "mistral": 131072,
    "qwen2": 32768,
    "qwen3": 32768,
    "qwen3_moe": 32768,
}

HEAD_DIM_DEFAULTS: dict[str, int] = {"gemma3n": 256}
