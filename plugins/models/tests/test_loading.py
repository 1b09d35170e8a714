"""Strict loading: whatever does not fit is an error that names the tensor; what is skipped is skipped on purpose."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sgl_torch.loading import weights_size
from sgl_torch.testing import Driver, load_folder
from sgl_torch.weights import WeightError, weight_slots

Tiny = Callable[[str], tuple[Path, Any]]


def changed(source: Path, target: Path, tensors: Mapping[str, torch.Tensor | None], config: dict[str, Any]) -> Path:
    """A copy of a checkpoint with tensors replaced (None: taken out) and configuration entries changed."""
    shutil.copytree(source, target)
    stored = load_file(target / "model.safetensors")
    for name, tensor in tensors.items():
        stored.pop(name, None)
        if tensor is not None:
            stored[name] = tensor
    save_file(stored, target / "model.safetensors", metadata={"format": "pt"})
    path = target / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return target


def last_logits(folder: Path, registries: Any) -> torch.Tensor:
    driver = Driver(load_folder(folder, registries).runner)
    return driver.prefill(driver.start([5, 6, 7, 8]))[-1]


@pytest.mark.field_case("154")
def test_tied_model_that_stores_a_head_all_the_same_loads(tiny: Tiny, registries: Any, tmp_path: Path) -> None:
    """Field case 154. The stored head is ignored, even when it differs."""
    folder = tiny("llama_tied")[0]
    stored = changed(folder, tmp_path / "m", {"lm_head.weight": torch.ones(199, 48)}, {})
    assert torch.equal(last_logits(stored, registries), last_logits(folder, registries))


@pytest.mark.field_case("155")
def test_untied_model_without_a_head_fails_by_name(tiny: Tiny, registries: Any, tmp_path: Path) -> None:
    """Field case 155."""
    broken = changed(tiny("llama_tied")[0], tmp_path / "m", {}, {"tie_word_embeddings": False})
    with pytest.raises(WeightError, match=r"lacks lm_head\.weight"):
        load_folder(broken, registries)


def test_every_missing_parameter_is_named(tiny: Tiny, registries: Any, tmp_path: Path) -> None:
    gone = {"model.norm.weight": None, "model.layers.1.self_attn.k_proj.weight": None}
    broken = changed(tiny("llama")[0], tmp_path / "m", gone, {})
    with pytest.raises(WeightError, match=r"layers\.1\.self_attn\.k_proj\.weight.*norm\.weight"):
        load_folder(broken, registries)


@pytest.mark.parametrize("name", ["model.layers.0.self_attn.g_proj.weight", "model.layers.7.mlp.up_proj.weight"])
def test_unexpected_tensor_is_named(name: str, tiny: Tiny, registries: Any, tmp_path: Path) -> None:
    broken = changed(tiny("llama")[0], tmp_path / "m", {name: torch.ones(3)}, {})
    with pytest.raises(WeightError, match=f"no place for {name}"):
        load_folder(broken, registries)


def test_wrong_shape_is_named(tiny: Tiny, registries: Any, tmp_path: Path) -> None:
    broken = changed(tiny("llama")[0], tmp_path / "m", {"model.norm.weight": torch.ones(47)}, {})
    with pytest.raises(WeightError, match=r"model\.norm\.weight has shape \[47\].*asks for \[48\]"):
        load_folder(broken, registries)


def test_missing_bias_is_named(tiny: Tiny, registries: Any, tmp_path: Path) -> None:
    broken = changed(tiny("qwen2")[0], tmp_path / "m", {"model.layers.2.self_attn.v_proj.bias": None}, {})
    with pytest.raises(WeightError, match=r"layers\.2\.self_attn\.v_proj\.bias"):
        load_folder(broken, registries)


def test_rotary_buffers_are_skipped(tiny: Tiny, registries: Any, tmp_path: Path) -> None:
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}
    folder = changed(tiny("llama")[0], tmp_path / "m", extra, {})
    assert torch.equal(last_logits(folder, registries), last_logits(tiny("llama")[0], registries))


@pytest.mark.parametrize("case", ["llama_biases", "qwen3", "mimo", "llama_tied"])
def test_weights_read_back_by_their_checkpoint_names(case: str, tiny: Tiny, registries: Any) -> None:
    folder = tiny(case)[0]
    slots = weight_slots(load_folder(folder, registries).model)
    stored = load_file(folder / "model.safetensors")
    known = [name for name in stored if name in slots]
    assert len(known) > 20
    assert all(torch.equal(slots[name].read(), stored[name]) for name in known)


@pytest.mark.field_case("169", "170")
def test_tied_head_shares_the_memory_of_the_embedding(tiny: Tiny, registries: Any) -> None:
    model: Any = load_folder(tiny("llama_tied")[0], registries).model
    before = weights_size(model)
    model.lm_head._packed = None
    assert weights_size(model) == before


class TestKvScales:
    """Field cases 169 and 170."""

    def test_fp8_without_scales_runs_with_one_and_warns_once(
        self, tiny: Tiny, registries: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        loaded = load_folder(tiny("llama")[0], registries, kv_cache_dtype="fp8_e4m3")
        assert [r.levelname for r in caplog.records if "scales" in r.message] == ["WARNING"]
        assert any("KV scales: 1.0" in note for note in loaded.capacity.notes)
        driver = Driver(loaded.runner)
        got = driver.prefill(driver.start([5, 6, 7, 8, 9]), chunk=2)
        want = last_logits(tiny("llama")[0], registries)
        assert torch.nn.functional.cosine_similarity(got[3], want, dim=0) > 0.98

    @pytest.mark.parametrize("spelling", ["{}_scale", "attn.{}_scale", "{}_proj.{}_scale", "{}_proj.output_scale"])
    def test_scales_of_the_checkpoint_are_in_use(
        self, spelling: str, tiny: Tiny, registries: Any, tmp_path: Path
    ) -> None:
        scales = {
            f"model.layers.{i}.self_attn.{spelling.format(letter, letter)}": torch.tensor([value])
            for i in range(3)
            for letter, value in (("k", 0.04), ("v", 0.03))
        }
        folder = changed(tiny("llama")[0], tmp_path / "m", scales, {})
        loaded = load_folder(folder, registries, kv_cache_dtype="fp8_e4m3")
        assert "KV scales: from the checkpoint, k 0.04 to 0.04, v 0.03 to 0.03" in loaded.capacity.notes
        driver = Driver(loaded.runner)
        sequence = driver.start([5, 6, 7, 8])
        got = driver.prefill(sequence)
        stored = loaded.runner.pool.k[0][sequence.pages[0]].float()
        assert stored.abs().max() > 4  # values near 1 divided by 0.04
        assert torch.nn.functional.cosine_similarity(got[-1], last_logits(tiny("llama")[0], registries), dim=0) > 0.98

    def test_a_scale_that_fits_no_layer_is_an_error(self, tiny: Tiny, registries: Any, tmp_path: Path) -> None:
        extra = {"model.layers.9.self_attn.k_scale": torch.tensor(0.04)}
        with pytest.raises(WeightError, match=r"no place for model\.layers\.9\.self_attn\.k_scale"):
            load_folder(changed(tiny("llama")[0], tmp_path / "m", extra, {}), registries)
