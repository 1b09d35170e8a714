"""Questions of rules to the specs of a registry. Specs answer whether or not their implementation is installed."""

from __future__ import annotations

from sgl_core.api.rules import View


def names_with(view: View, registry: str, flag: str) -> tuple[str, ...]:
    """The entries of a registry that carry a flag, sorted by name."""
    found = view.choices(registry)
    return tuple(sorted(name for name in found.names() if flag in found.spec(name).flags))


def pages_of(view: View, backend: str) -> tuple[tuple[int, ...], int | None]:
    """(page sizes that an attention backend reads, the one it prefers); no sizes where any will do."""
    found = view.choices("attention")
    if backend not in found:
        return (), None
    spec = found.spec(backend)
    return spec.page_sizes, spec.preferred_page_size


def formats_of(view: View, runner: str) -> frozenset[str]:
    """The weight formats that a MoE runner multiplies (``none`` = unquantized); empty where it states none."""
    found = view.choices("moe_runners")
    return found.spec(runner).quant_formats if runner in found else frozenset()
