"""Registries made by hand for configuration tests."""

from __future__ import annotations

import pytest

from sgl_core.api.specs import AttentionSpec, ChoiceSpec, Option
from sgl_core.registry import Registries


@pytest.fixture
def vendor_registries() -> Registries:
    """Registries with a few attention backends of ours and one of a vendor's, with a setting of its own."""
    registries = Registries()
    for name in ("triton", "torch_native", "flashinfer"):
        registries.add("attention", AttentionSpec(name=name), "sgl-torch", "0.1.0")
    registries.add("attention", AttentionSpec(name="dsa", deprecated_aliases=("nsa",)), "sgl-torch", "0.1.0")
    vendor = AttentionSpec(
        name="my_plugin_backend",
        options=(Option(name="my_plugin_backend.block", type=int, default=16, help="Tokens per block."),),
    )
    registries.add("attention", vendor, "vendor-dist", "1.2.3")
    registries.add("schedule_policies", ChoiceSpec(name="fcfs"), "sgl-core", "0.1.0")
    return registries
