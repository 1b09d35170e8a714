"""What a model takes of the budget before it was loaded, and the KV pool that it gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sgl_core.config import ServerArgs
from sgl_core.registry import Registries
from sgl_core.serve.models.memory import allowance, kv_bytes_per_token, limited
from sgl_core.serve.prepare import Prepared, prepare

EACH = 2 * (16 + 16) * 2 * 2
"""Two KV heads of 16, keys and values, two layers, two bytes."""
WEIGHTS = 1_000_000


@pytest.fixture
def prepared(folders: dict[str, Path], registries: Registries) -> Prepared:
    args = ServerArgs.from_sources(cli={"model_path": str(folders["a"]), "device": "null"}, registries=registries)
    found = prepare(args, registries, env={})
    model = replace(found.plan.model, dtype="bfloat16")
    return replace(found, plan=replace(found.plan, model=model), files=replace(found.files, weight_bytes=WEIGHTS))


def with_config(prepared: Prepared, **values: Any) -> Prepared:
    return replace(prepared, plan=replace(prepared.plan, config=prepared.plan.config.replaced(**values)))


@pytest.mark.parametrize(
    ("kind", "each"), [("auto", EACH), ("int8", EACH // 2), ("bf16", EACH), ("fp4_e2m1", EACH // 4)]
)
def test_bytes_of_a_token(prepared: Prepared, kind: str, each: int) -> None:
    assert kv_bytes_per_token(with_config(prepared, kv_cache_dtype=kind)) == each


def test_other_kinds_of_attention_are_not_guessed(prepared: Prepared) -> None:
    mla = replace(prepared, plan=replace(prepared.plan, model=replace(prepared.plan.model, attention_kind="mla")))
    assert kv_bytes_per_token(mla) == 0
    assert limited(mla, 10**9) is mla
    assert allowance(mla, 2_000_000, 2) == 1_250_000


def test_models_share_the_budget_evenly_where_that_serves(prepared: Prepared) -> None:
    least = 1_050_000 + 4096 * EACH
    assert allowance(prepared, 100_000_000, 4) == 25_000_000
    assert allowance(prepared, 4_000_000, 4) == least
    assert allowance(prepared, least - 1000, 4) == least - 1000
    assert allowance(with_config(prepared, max_total_tokens=64), 100_000_000, 4) == 1_050_000 + 64 * EACH


def test_the_pool_fits_beside_the_weights(prepared: Prepared) -> None:
    tokens = limited(prepared, 2_050_000).plan.config.get("max_total_tokens")
    assert tokens == 1_000_000 // EACH
    assert limited(prepared, 10**12).plan.config.get("max_total_tokens") == 8192 * 128
    asked = with_config(prepared, max_total_tokens=64)
    assert limited(asked, 10**9) is asked
