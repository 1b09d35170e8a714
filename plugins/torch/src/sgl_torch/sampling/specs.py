"""The spec of the reference sampler."""

from __future__ import annotations

from sgl_core.api import ChoiceSpec

PYTORCH = ChoiceSpec(
    name="pytorch",
    aliases=("torch",),
    target="sgl_torch.sampling.sampler:Sampler",
    summary="the reference sampler, in plain torch on any device",
    flags=frozenset({"deterministic"}),
)
