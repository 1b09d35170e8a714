"""Rotary tables against transformers' for every scaling, partial and interleaved rotation against the definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sgl_torch.context import LayerContext
from sgl_torch.layers import RotaryEmbedding, rope_parameters
from sgl_torch.layers.rotary import rope_table
from sgl_torch.ops import OpContext, reference_ops
from sgl_torch.testing.tiny_models import ROPES

CPU = torch.device("cpu")
SIZES: dict[str, Any] = {
    "hidden_size": 96,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
}
EXTRA: dict[str, dict[str, Any]] = {
    "yarn_mscale": {**ROPES["yarn"], "mscale": 0.7, "mscale_all_dim": 1.2},
    "yarn_untruncated": {**ROPES["yarn"], "truncate": False, "beta_fast": 16.0, "beta_slow": 2.0},
    "yarn_factor": {**ROPES["yarn"], "attention_factor": 1.3},
}


def context(length: int = 256) -> LayerContext:
    ops = reference_ops(OpContext(device=CPU, dtype=torch.float32))
    return LayerContext(ops=ops, dtype=torch.float32, device=CPU, context_length=length)


def transformers_table(section: dict[str, Any]) -> torch.Tensor:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    rotary = LlamaRotaryEmbedding(LlamaConfig(**SIZES, rope_parameters=section))
    cos, sin = rotary(torch.zeros(1, 1), torch.arange(256).unsqueeze(0))
    table: torch.Tensor = torch.cat((cos[0, :, :8], sin[0, :, :8]), dim=-1)
    return table


@pytest.mark.parametrize("kind", [*ROPES, *EXTRA])
def test_table_equals_transformers(kind: str) -> None:
    section = {**ROPES, **EXTRA}[kind]
    params = rope_parameters({**SIZES, "rope_parameters": section}, 16)
    assert (rope_table(params, 256) - transformers_table(section)).abs().max() < 1e-6


def test_longrope_takes_the_long_factors_when_more_context_is_served() -> None:
    params = rope_parameters({**SIZES, "rope_parameters": ROPES["longrope"]}, 16)
    short, long = rope_table(params, 256), rope_table(params, 257)[:256]
    assert not torch.allclose(short, long)


def test_old_and_new_spelling_agree() -> None:
    section = dict(ROPES["llama3"])
    new = rope_parameters({**SIZES, "rope_parameters": section}, 16)
    theta = section.pop("rope_theta")
    section["type"] = section.pop("rope_type")
    old = rope_parameters({**SIZES, "rope_scaling": section, "rope_theta": theta}, 16)
    assert torch.equal(rope_table(new, 256), rope_table(old, 256))


def test_parameters_by_layer_type() -> None:
    sets = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    assert rope_parameters({"rope_parameters": sets}, 16, "sliding_attention").theta == 1e4
    assert rope_parameters({"rope_parameters": sets}, 16, "full_attention").theta == 1e6


def test_unknown_scaling_and_missing_number_are_named() -> None:
    with pytest.raises(ValueError, match=r"'spiral' is not known; served: default, dynamic"):
        rope_table(rope_parameters({"rope_scaling": {"type": "spiral"}}, 16), 8)
    with pytest.raises(ValueError, match="'linear' needs 'factor'"):
        rope_table(rope_parameters({"rope_scaling": {"type": "linear"}}, 16), 8)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("partial", [1.0, 0.5])
def test_rotation_is_the_complex_product(interleaved: bool, partial: float) -> None:
    params = rope_parameters({**SIZES, "partial_rotary_factor": partial}, 16)
    rotary = RotaryEmbedding(params, context(), interleaved=interleaved)
    x, positions = torch.randn(9, 3, 16), torch.tensor([0, 1, 2, 3, 50, 51, 255, 7, 7])
    got = rotary(x, positions)
    n = int(16 * partial)
    if interleaved:
        first, second = x[..., 0:n:2], x[..., 1:n:2]
    else:
        first, second = x[..., : n // 2], x[..., n // 2 : n]
    angles = positions[:, None].double() * 10000.0 ** (-torch.arange(0, n, 2).double() / n)
    turned = torch.complex(first.double(), second.double()) * torch.polar(torch.ones_like(angles), angles)[:, None]
    real, imaginary = turned.real.float(), turned.imag.float()
    if interleaved:
        assert torch.allclose(got[..., 0:n:2], real, atol=1e-4)
        assert torch.allclose(got[..., 1:n:2], imaginary, atol=1e-4)
    else:
        assert torch.allclose(got[..., :n], torch.cat((real, imaginary), -1), atol=1e-4)
    assert torch.equal(got[..., n:], x[..., n:])
