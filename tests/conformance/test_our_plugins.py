"""Our own packages go through the conformance checks that we ask of everybody."""

from __future__ import annotations

import pytest

from sgl_core.registry import FIRST_PARTY, Registries
from sgl_core.testing.kit import check_dist

REGISTRIES = Registries.discover()


@pytest.mark.parametrize("dist", sorted(set(REGISTRIES.dists) & FIRST_PARTY))
def test_conforms(dist: str) -> None:
    assert check_dist(dist, Registries.discover()) == []


def test_nothing_clashes() -> None:
    REGISTRIES.check()
    assert REGISTRIES.problems == []
