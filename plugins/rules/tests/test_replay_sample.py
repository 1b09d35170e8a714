"""Replays a sample of recorded resolutions: agreement, the same ledger twice, announced reads, no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sgl_core.config import ConfigError, ServerArgs, resolve
from sgl_core.registry import Registries
from sgl_core.testing.resolution import RESOLVABLE, REST, facts_of, model_of, read_purposes, records, tally

DATA = Path(__file__).parent / "data"
SAMPLE = DATA / "resolution-sample.jsonl.gz"


def test_agreement(registries: Registries) -> None:
    result = tally(records(SAMPLE), registries, read_purposes(DATA / "on-purpose.json"))
    assert result.cases > 300
    assert result.share(RESOLVABLE) >= 98, result.differences[:5]
    assert result.share(REST) >= 95, result.differences[:5]


def outcome(record: dict[str, Any], registries: Registries) -> tuple[Any, ...]:
    """The ledger and environment of a resolution under audit, or its refusal."""
    args = ServerArgs.of(**record["args"], model_path="models/m")
    try:
        result = resolve(args, facts_of(record), model_of(record), registries, audit=True)
    except ConfigError as refusal:
        return (refusal.kind, str(refusal))
    return (list(result.ledger), dict(result.env))


def test_rules_are_pure_and_announce_what_they_read(registries: Registries) -> None:
    for record in list(records(SAMPLE))[::4]:
        assert outcome(record, registries) == outcome(record, registries), record["id"]


def test_every_decision_has_a_reason(registries: Registries) -> None:
    for record in list(records(SAMPLE))[::8]:
        if record["error"]:
            continue
        args = ServerArgs.of(**record["args"], model_path="models/m")
        for entry in resolve(args, facts_of(record), model_of(record), registries).ledger:
            assert len(entry.because) > 8, entry
            assert entry.dist == "sgl-rules"
