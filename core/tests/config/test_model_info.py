"""ModelInfo from config.json: attention kinds, quantization, sizes, context length, vision towers."""

from __future__ import annotations

from typing import Any

import pytest

from sgl_core.config.model_info import model_info_from_config


def info(architecture: str = "LlamaForCausalLM", **config: Any) -> Any:
    return model_info_from_config({"architectures": [architecture], **config}, "models/m")


def test_a_config_without_architecture_is_refused() -> None:
    with pytest.raises(ValueError, match="architecture"):
        model_info_from_config({"model_type": "llama"}, "models/m")


@pytest.mark.parametrize(
    ("named", "model_type", "served"),
    [
        ("LongcatFlashForCausalLMNextN", "longcat_flash", "LongcatFlashForCausalLM"),
        ("LongcatFlashNgramForCausalLM", "", "LongcatFlashForCausalLM"),
        ("MultiModalityModel", "multi_modality", "MultiModalityCausalLM"),
        ("LlamaForCausalLM", "llama", "LlamaForCausalLM"),
    ],
)
def test_variants_are_served_as_one_architecture(named: str, model_type: str, served: str) -> None:
    assert model_info_from_config({"architectures": [named], "model_type": model_type}).architecture == served


def test_plain_text_model() -> None:
    model = info(hidden_size=2048, num_attention_heads=16, num_key_value_heads=8, num_hidden_layers=4, vocab_size=100)
    assert (model.head_dim, model.v_head_dim, model.swa_head_dim) == (128, 128, 128)
    assert (model.num_kv_heads, model.num_layers, model.attention_kind) == (8, 4, "mha")
    assert model.text_config is model.hf_config
    assert not model.is_multimodal
    assert model.quant_method is None


@pytest.mark.parametrize(
    ("architecture", "config", "kind"),
    [
        ("DeepseekV3ForCausalLM", {}, "mla"),
        ("DeepseekV32ForCausalLM", {"index_topk": 2048}, "dsa"),
        ("KimiK25ForConditionalGeneration", {"index_topk": 2048}, "mla"),
        ("PixtralForConditionalGeneration", {"text_config": {"kv_lora_rank": 512}}, "mla"),
        ("PixtralForConditionalGeneration", {"text_config": {"hidden_size": 64}}, "mha"),
        ("DeepseekVL2ForCausalLM", {"language_config": {"use_mla": False}}, "mha"),
        ("DeepseekV4ForCausalLM", {"index_topk": 512}, "mha"),
        ("UnheardOfForCausalLM", {}, "mha"),
    ],
)
def test_attention_kind(architecture: str, config: dict[str, Any], kind: str) -> None:
    assert info(architecture, **config).attention_kind == kind


@pytest.mark.parametrize(
    ("section", "method"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_algo": "NVFP4"}, "modelopt_fp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "modelopt_fp8"),
        ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, "mxfp8"),
        ({"quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": "NVFP4"}}}, "modelopt_mixed"),
        ({"quant_algo": "MIXED_PRECISION"}, "w4afp8"),
        ({"bits": 4, "group_size": 64}, None),
    ],
)
def test_quantization_method(section: dict[str, Any], method: str | None) -> None:
    model = info(quantization_config=section)
    assert model.quant_method == method
    assert section.items() <= {**model.quant_config, **section}.items()


def test_quantization_of_the_text_part_and_of_a_file_beside() -> None:
    inner = {"text_config": {"quantization_config": {"quant_method": "compressed-tensors"}}}
    assert info("KimiK25ForConditionalGeneration", **inner).quant_method == "compressed-tensors"
    beside = {"quantization": {"quant_algo": "NVFP4"}}
    model = model_info_from_config({"architectures": ["LlamaForCausalLM"]}, hf_quant_config=beside)
    assert model.quant_method == "modelopt_fp4"


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "linear", "factor": 4}}, 16384),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "llama3", "factor": 8}}, 4096),
        (
            {
                "max_position_embeddings": 4096,
                "rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 1024},
            },
            4096,
        ),
        ({"max_sequence_length": 2000, "max_position_embeddings": 4096}, 2000),
        ({"model_type": "gemma2"}, 8192),
        ({}, 2048),
    ],
)
def test_context_length(config: dict[str, Any], length: int) -> None:
    assert info(**config).context_length == length


@pytest.mark.parametrize(
    ("config", "tower"),
    [
        ({}, (0, 0)),
        ({"vision_config": {}}, (24, 1024)),
        ({"vision_config": {"num_hidden_layers": 2, "hidden_size": 256}}, (2, 256)),
        ({"model_type": "kimi_k25", "vision_config": {}}, (27, 1152)),
        ({"model_type": "gemma4", "vision_config": {"model_type": "gemma4_vision"}}, (16, 768)),
        ({"model_type": "gemma3n"}, (24, 2048)),
    ],
)
def test_vision_tower(config: dict[str, Any], tower: tuple[int, int]) -> None:
    model = info("SomeForConditionalGeneration", **config)
    assert (model.vision_layers, model.vision_hidden_size) == tower


def test_media_sinks_and_heads() -> None:
    text = {"num_attention_heads": 8, "hidden_size": 512, "multi_query": True}
    model = info("SomeVLForConditionalGeneration", text_config=text)
    assert model.is_multimodal
    assert model.num_kv_heads == 1
    assert info("GptOssForCausalLM").attention_sinks
    assert info("MiMoV2FlashForCausalLM", add_swa_attention_sink_bias=True).attention_sinks
    assert not info("MiMoV2FlashForCausalLM").attention_sinks


def test_original_llava_keeps_its_text_at_the_top() -> None:
    model = info("LlavaLlamaForCausalLM", text_config={"hidden_size": 1}, hidden_size=64, num_attention_heads=4)
    assert model.hidden_size == 64
