"""The architecture against transformers on tiny random weights, and the conformance checks on the installed package."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import Starcoder2Config, Starcoder2ForCausalLM

from sgl_core.registry import Registries
from sgl_core.testing.kit import check_dist
from sgl_torch.testing import Driver, load_folder

PROMPT = [7, 3, 99, 42, 5, 8, 120, 11, 64, 2, 31, 17, 150, 9]


@pytest.fixture(params=[None, 6], ids=["full", "window"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Starcoder2ForCausalLM]:
    torch.manual_seed(0)
    config = Starcoder2Config(
        vocab_size=199,
        hidden_size=48,
        intermediate_size=100,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=128,
        sliding_window=request.param,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = Starcoder2ForCausalLM(config).eval().float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path)
    return tmp_path, model


def test_logits_are_those_of_transformers(checkpoint: tuple[Path, Starcoder2ForCausalLM]) -> None:
    folder, model = checkpoint
    with torch.no_grad():
        expected = model(torch.tensor([PROMPT])).logits[0]
    loaded = load_folder(folder, Registries.discover(), dtype="float32", page_size=4)
    driver = Driver(loaded.runner)
    whole = driver.prefill(driver.start(PROMPT))
    torch.testing.assert_close(whole, expected, atol=1e-4, rtol=1e-4)
    chunks = driver.prefill(driver.start(PROMPT), chunk=3)
    torch.testing.assert_close(chunks, expected, atol=1e-4, rtol=1e-4)
    prompt = driver.start(PROMPT)
    driver.prefill(prompt)
    shared = driver.prefill(driver.start(PROMPT, prefix=prompt))
    torch.testing.assert_close(shared, expected[-len(shared) :], atol=1e-4, rtol=1e-4)


def test_the_package_conforms() -> None:
    assert check_dist("sgl-example-model") == []
