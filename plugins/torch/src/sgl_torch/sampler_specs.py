"""The spec of the reference sampler, apart from the sampler, which imports torch."""

from __future__ import annotations

from sgl_core.api import ChoiceSpec

PYTORCH = ChoiceSpec(
    name="pytorch",
    aliases=("torch",),
    target="sgl_torch.sampling.sampler:Sampler",
    summary="the reference sampler, in plain torch on any device",
    flags=frozenset({"deterministic"}),
)
