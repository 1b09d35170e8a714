"""Law 1: sgl_core imports no torch, transformers, triton or vendor library, however deep one looks."""

from __future__ import annotations

import json
import subprocess
import sys

from workspace_sources import imports, sources

HEAVY = frozenset(
    [
        "torch",
        "torchvision",
        "transformers",
        "triton",
        "tensorflow",
        "jax",
        "mlx",
        "vllm",
        "flashinfer",
        "sgl_kernel",
        "xgrammar",
        "llguidance",
        "outlines_core",
        "accelerate",
        "safetensors",
        "sgl_torch",
        "sgl_models",
        "sgl_cpu",
        "sgl_rules",
        "sgl_parsers",
        "sgl_grammar",
        "sgl_ops",
        "sgl_quant",
    ]
)

WALK = """
import importlib, json, pkgutil, sys
import sgl_core
failed = {}
names = [info.name for info in pkgutil.walk_packages(sgl_core.__path__, "sgl_core.", onerror=lambda name: None)]
for name in names:
    if name.rpartition(".")[2] == "__main__":
        continue
    try:
        importlib.import_module(name)
    except Exception as error:
        failed[name] = f"{type(error).__name__}: {error}"
print(json.dumps({"failed": failed, "count": len(names), "modules": sorted(sys.modules)}))
"""


def test_importing_everything_under_the_core_imports_nothing_heavy() -> None:
    run = subprocess.run([sys.executable, "-c", WALK], capture_output=True, text=True, check=True)
    answer = json.loads(run.stdout.splitlines()[-1])
    assert answer["failed"] == {}
    assert answer["count"] > 50
    assert sorted(HEAVY & {name.partition(".")[0] for name in answer["modules"]}) == []


def test_the_core_names_no_heavy_module_at_its_top() -> None:
    """Imports inside a function may reach for an optional package; transformers is allowed there for slow tokenizers."""
    found = [
        f"{source.label}:{line} imports {module}"
        for source in sources()
        if source.dist.name == "core"
        for module, line, _ in imports(source.tree)
        if module.partition(".")[0] in HEAVY - {"transformers"}
    ]
    assert found == []
