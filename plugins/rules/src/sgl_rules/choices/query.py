"""Questions of rules to the specs of a registry. Specs answer whether or not their implementation is installed."""

from __future__ import annotations

from sgl_core.api.rules import View
from sgl_core.api.specs import AttentionSpec


def names_with(view: View, registry: str, flag: str) -> tuple[str, ...]:
    """The entries of a registry that carry a flag, sorted by name."""
    found = view.choices(registry)
    return tuple(sorted(name for name in found.names() if flag in found.spec(name).flags))


def attention_spec(view: View, backend: str | None) -> AttentionSpec | None:
    """What an attention backend states about itself; None for one that no installed package knows."""
    found = view.choices("attention")
    return found.spec(backend) if backend is not None and backend in found else None


def formats_of(view: View, runner: str) -> frozenset[str]:
    """The weight formats that a MoE runner multiplies (``none`` = unquantized); empty where it states none."""
    found = view.choices("moe_runners")
    return found.spec(runner).quant_formats if runner in found else frozenset()
