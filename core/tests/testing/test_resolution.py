"""The replay of recorded resolutions: facts of a record, differences, counts, the command."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sgl_core.registry import Registries
from sgl_core.testing.resolution import (
    Difference,
    Purpose,
    facts_of,
    main,
    model_of,
    read_purposes,
    records,
    replay,
    report,
    tally,
)

H100 = {
    "is_cuda": True,
    "device": "cuda",
    "device_name": "NVIDIA H100",
    "device_sm": 90,
    "device_count": 8,
    "device_memory_mib": 81559.0,
    "cuda_version": [13, 0],
    "nvidia_driver_version": [580, 95, 5],
    "is_flashinfer_available": True,
    "env": {"SGLANG_USE_AITER": "0"},
}


def record(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "id": "sm90/llama/default#1",
        "platform": "sm90",
        "platform_facts": H100,
        "model": "llama",
        "arch": "LlamaForCausalLM",
        "hf_config": {"architectures": ["LlamaForCausalLM"], "num_attention_heads": 16, "hidden_size": 2048},
        "args": {},
        "resolved": {},
        "error": None,
    }
    return {**base, **changes}


def test_facts_of_a_record() -> None:
    facts = facts_of(record(env_in={"X": "1"}))
    assert (facts.platform, facts.arch, facts.cuda_version, facts.driver_version) == ("cuda", 90, "13.0", "580.95.5")
    assert "flashinfer" in facts.libraries
    assert facts.env == {"SGLANG_USE_AITER": "0", "X": "1"}


@pytest.mark.parametrize(
    ("flags", "platform"),
    [({"is_hip": True}, "rocm"), ({"is_mps": True, "use_mlx": True}, "mps"), ({"is_cpu": True}, "cpu")],
)
def test_platform_of_a_record(flags: dict[str, bool], platform: str) -> None:
    assert facts_of(record(platform_facts={"device": "d", **flags})).platform == platform


def test_a_machine_of_no_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no device"):
        facts_of(record(platform_facts={"device": "d"}))


def test_model_of_a_record() -> None:
    model = model_of(record(draft_hf_config={"block_size": 4}))
    assert model.path == "MODELS/llama"
    assert model.draft_hf_config == {"block_size": 4}


def test_without_rules_nothing_changes() -> None:
    assert replay(record(), Registries(), rules=()) == []
    (difference,) = replay(record(resolved={"page_size": 1}), Registries(), rules=())
    assert (difference.field, difference.ours, difference.recorded) == ("page_size", "<unchanged>", 1)


def test_refusals_are_compared_by_kind() -> None:
    error = {"type": "AssertionError", "message": "no"}
    (difference,) = replay(record(error=error), Registries(), rules=())
    assert difference.field == "error"


def test_counts_and_differences_on_purpose(tmp_path: Path) -> None:
    cases = [record(), record(id="b", resolved={"page_size": 1}), record(id="c", resolved={"tokenizer_path": "x"})]
    plain = tally(cases, Registries())
    assert (plain.cases, plain.agreed["resolvable"], plain.agreed["rest"]) == (3, 2, 2)
    assert plain.by_platform["sm90"]["cases"] == 3
    listed = tmp_path / "purpose.json"
    listed.write_text(json.dumps([{"fields": ["page_size"], "reason": "ours is better", "case": "b"}]))
    meant = tally(cases, Registries(), read_purposes(listed))
    assert meant.agreed["resolvable"] == 3
    assert meant.on_purpose == 1
    assert "page_size" not in report(meant, 5)
    assert "tokenizer_path" in report(meant, 5)


def test_a_purpose_may_name_a_machine() -> None:
    purpose = Purpose(fields=("page_size",), reason="r", platform="sm100")
    (difference,) = replay(record(resolved={"page_size": 1}), Registries(), rules=())
    assert not purpose.covers(difference, record())


def test_a_purpose_may_name_the_rule_that_refuses() -> None:
    refusal = Difference("a", "error", "ValueError: no\n  Decided by rule strict (dist 1, file.py:1)", None)
    assert Purpose(fields=("error",), reason="r", rule="strict").covers(refusal, record())
    assert not Purpose(fields=("error",), reason="r", rule="stric").covers(refusal, record())


def test_the_command_reads_gzip_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.jsonl.gz"
    with gzip.open(path, "wt") as out:
        out.write(json.dumps(record()) + "\n\n")
    assert len(list(records(path))) == 1
    main([str(path), "--arch", "OtherForCausalLM"])
    assert capsys.readouterr().out.startswith("0 cases")
