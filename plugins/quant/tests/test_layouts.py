"""Every layout against transformers over the dense weights it stands for: through torch's ops and through the CPU's kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sgl_torch.layers.linear import Linear
from sgl_torch.ops import ScaledTensor
from sgl_torch.testing import Driver, load_folder
from sgl_torch.weights import WeightError, weight_slots

NAMES = (
    "gptq",
    "gptq_v2",
    "gptq_one_group",
    "gptq_act_order",
    "awq",
    "packed_symmetric",
    "packed_zeros",
    "int8",
    "int8_compressed",
    "fp8_tensor",
    "fp8_blocks",
    "fp8_rows",
    "fp8_compressed",
)
PROMPT = [3, 50, 7, 120, 9, 14, 88, 190, 33, 5, 61]


def logits_of(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(torch.tensor([PROMPT])).logits[0]
    return found


def test_every_layout_is_tried(checkpoints: Any) -> None:
    assert set(NAMES) == set(checkpoints.LAYOUTS)


@pytest.mark.parametrize("name", NAMES)
def test_through_torch(name: str, tiny: Any, registries: Any) -> None:
    folder, model = tiny(name)
    loaded = load_folder(folder, registries, platform="none")  # whose ops are torch's
    driver = Driver(loaded.runner)
    assert (driver.prefill(driver.start(PROMPT)) - logits_of(model)).abs().max() < 1e-4
    with torch.inference_mode():
        slots = weight_slots(loaded.model)
        q = next(slot for key, slot in slots.items() if "layers.1.self_attn.q_proj." in key and not slot.ignored)
        want = model.get_parameter("model.layers.1.self_attn.q_proj.weight")
        assert torch.allclose(q.read(), want, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_through_the_kernels(name: str, tiny: Any, registries: Any, kernel_worker: Any) -> None:
    folder, model = tiny(name)
    want = logits_of(model)
    exact = kernel_worker(folder, cpu_exact_activations=True)
    driver = Driver(exact.runner)
    assert (driver.prefill(driver.start(PROMPT)) - want).abs().max() < 1e-4
    kept = {type(layer.method).__name__ for layer in exact.runner.model.modules() if isinstance(layer, Linear)}
    assert kept == {"QuantizedMethod"}
    usual = kernel_worker(folder)
    driver = Driver(usual.runner)
    got = driver.prefill(driver.start(PROMPT))
    # 8-bit activations: the error of each product is a fraction of a percent of its size
    assert (got - want).norm() < 0.03 * want.norm()
    assert torch.equal(got.argmax(-1)[-1:], want.argmax(-1)[-1:]) or (got - want).abs().max() < 0.1 * want.abs().max()


def test_weights_stay_small(tiny: Any, kernel_worker: Any) -> None:
    """4-bit codes are multiplied as they are, not widened."""
    sizes = {}
    for name in ("gptq", "int8", "fp8_rows"):
        worker = kernel_worker(tiny(name)[0])
        down = worker.runner.model.model.layers[0].mlp.down_proj
        sizes[name] = sum(part.nbytes for part in down.method.packed.parts) / (64 * 96)
    assert sizes["gptq"] < 1.1
    assert sizes["int8"] < 1.5
    assert sizes["fp8_rows"] < 1.5


def test_layers_that_are_left_out(tmp_path: Path, checkpoints: Any, registries: Any) -> None:
    left = ("model.layers.0.mlp.down_proj",)
    model = checkpoints.make("awq", tmp_path, left_out=left)
    driver = Driver(load_folder(tmp_path, registries, platform="none").runner)
    assert (driver.prefill(driver.start(PROMPT)) - logits_of(model)).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("gptq", {"bits": 3}, "GPTQ with 3 bits is not read"),
        ("gptq", {"dynamic": {"x": {}}}, "`dynamic`"),
        ("awq", {"version": "gemv"}, "'gemv' is not read"),
        ("packed_zeros", {"format": "nvfp4-pack-quantized"}, "nvfp4-pack-quantized"),
        ("packed_zeros", {"config_groups": {}}, "one scheme"),
    ],
)
def test_what_is_not_read_is_refused(
    name: str, change: dict[str, Any], message: str, tiny: Any, registries: Any
) -> None:
    section = json.loads((tiny(name)[0] / "config.json").read_text())["quantization_config"] | change
    with pytest.raises(WeightError, match=message):
        load_folder(tiny(name)[0], registries, config={"quantization_config": section})


@pytest.mark.parametrize("name", ["fp8_rows", "int8"])
def test_unquantized_weights_are_refused_by_name(name: str, tiny: Any, registries: Any, tmp_path: Path) -> None:
    folder = tiny(name)[0]
    tensors = load_file(folder / "model.safetensors")
    key = "model.layers.0.self_attn.o_proj.weight"
    save_file(tensors | {key: tensors[key].float()}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with pytest.raises(WeightError, match=r"layers\.0\.self_attn\.o_proj: its weight is float32"):
        load_folder(tmp_path, registries)


def test_scales_spread_over_their_groups() -> None:
    codes = torch.arange(10, dtype=torch.uint8).reshape(2, 5).numpy()
    scales = torch.tensor([[1.0, 10.0], [2.0, 20.0]]).numpy()
    zeros = torch.tensor([[0.0, 1.0], [5.0, 9.0]]).numpy()
    dense = ScaledTensor("int4", codes, scales, zeros, 3).dequantize()
    assert dense.tolist() == [[0, 1, 2, 20, 30], [0, 2, 4, -20, 0]]
