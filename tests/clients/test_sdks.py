"""langchain-openai, litellm and LlamaIndex, unmodified, against the default model. Each check is one test."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path

import pytest

CHECKS = Path(__file__).parent / "checks"
MODULES = ("langchain_openai_checks", "litellm_checks", "llama_index_checks")


def names(module: str) -> list[str]:
    tree = ast.parse((CHECKS / f"{module}.py").read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")]


@pytest.fixture(scope="module")
def outcome(server, client_program):
    """``outcome(module)``: what its checks say, by name; each module runs once."""
    found: dict[str, dict[str, str | None]] = {}

    def run(module: str) -> dict[str, str | None]:
        if module not in found:
            words = [client_program("sdks"), str(CHECKS / "run_checks.py"), module, server.root, server.model]
            environment = {**os.environ, "LANGSMITH_TRACING": "false", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
            done = subprocess.run(words, capture_output=True, text=True, timeout=600, env=environment)
            assert done.returncode == 0, done.stderr[-4000:]
            rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"check"')]
            found[module] = {row["check"]: row["error"] for row in rows}
        return found[module]

    return run


@pytest.mark.parametrize(("module", "check"), [(module, check) for module in MODULES for check in names(module)])
def test_client(outcome, module: str, check: str) -> None:
    error = outcome(module)[check]
    assert error is None, error
