"""What MiMo has beside the Qwen2 body: skipped tensors, embedding and head that can be read and replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from sgl_core.config.model_info import model_info_from_config
from sgl_models.mimo import MiMoForCausalLM
from sgl_torch.testing import Driver, load_folder

Tiny = Callable[[str], tuple[Path, Any]]


@pytest.fixture
def loaded(tiny: Tiny, registries: Any) -> Any:
    return load_folder(tiny("mimo")[0], registries)


def test_the_checkpoint_really_carries_what_is_skipped(tiny: Tiny) -> None:
    names = load_file(tiny("mimo")[0] / "model.safetensors")
    for part in ("mtp_layers", "projector", "model.vision_tower", "rotary_emb.inv_freq", "rotary_emb.cos_cached"):
        assert any(part in name for name in names)


def test_only_the_reference_s_tensors_are_skipped() -> None:
    skip = MiMoForCausalLM.skip_weight
    assert skip(None, "model.mtp_layers.0.final_layernorm.weight")  # type: ignore[arg-type]
    assert skip(None, "model.vision_tower.blocks.0.weight")  # type: ignore[arg-type]
    assert not skip(None, "vision_tower.blocks.0.weight")  # type: ignore[arg-type]
    assert not skip(None, "model.layers.36.mlp.up_proj.weight")  # type: ignore[arg-type]


def test_embed_and_head_can_be_read_and_replaced(loaded: Any, tiny: Tiny) -> None:
    model = loaded.model
    stored = load_file(tiny("mimo")[0] / "model.safetensors")
    embed, head = model.get_embed_and_head()
    assert torch.equal(embed, stored["model.embed_tokens.weight"])
    assert torch.equal(head, stored["lm_head.weight"])
    before = Driver(loaded.runner).prefill(Driver(loaded.runner).start([5, 6, 7]))
    model.set_embed_and_head(embed.clone(), 2 * head)
    driver = Driver(loaded.runner)
    assert torch.allclose(driver.prefill(driver.start([5, 6, 7])), 2 * before, rtol=1e-5)
    with pytest.raises(ValueError, match=r"head has shape \[2, 48\]"):
        model.set_embed_and_head(embed, head[:2])


def test_tied_embeddings_by_configuration(tiny: Tiny, registries: Any) -> None:
    loaded = load_folder(tiny("mimo")[0], registries, config={"tie_word_embeddings": True})
    embed, head = loaded.model.get_embed_and_head()  # type: ignore[operator]
    assert torch.equal(embed, head)
    with pytest.raises(ValueError, match="ties embedding and head"):
        loaded.model.set_embed_and_head(embed, head + 1)  # type: ignore[operator]
    loaded.model.set_embed_and_head(embed + 1, embed + 1)  # type: ignore[operator]


def test_serves_embeddings(registries: Any, tiny: Tiny) -> None:
    assert "embed" in registries.models.spec("MiMoForCausalLM").tasks
    info = model_info_from_config({"architectures": ["MiMoForCausalLM"], "hidden_size": 8, "num_attention_heads": 2})
    assert info.architecture == "MiMoForCausalLM"
