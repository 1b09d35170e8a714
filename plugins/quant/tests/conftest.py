"""Registries as installed, and each layout's checkpoint, made once."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sgl_core.registry import Registries
from sgl_torch.exactness import ask_for_strict_matmul

ask_for_strict_matmul()


@pytest.fixture(scope="session")
def checkpoints() -> Any:
    """The module ``checkpoints.py`` beside this file."""
    spec = importlib.util.spec_from_file_location("quant_checkpoints", Path(__file__).with_name("checkpoints.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def registries() -> Registries:
    return Registries.discover()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, checkpoints: Any) -> Callable[[str], tuple[Path, Any]]:
    """``tiny(layout)``: the checkpoint's folder and the dense model."""
    made: dict[str, tuple[Path, Any]] = {}

    def get(name: str) -> tuple[Path, Any]:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            made[name] = folder, checkpoints.make(name, folder)
        return made[name]

    return get


@pytest.fixture
def kernel_worker(registries: Registries) -> Any:
    """``kernel_worker(folder, **config)``: a worker of the CPU platform over the checkpoint, closed after the test."""
    import json

    from sgl_core.config import Config
    from sgl_core.config.model_info import model_info_from_config
    from sgl_core.plan import make_plan
    from sgl_cpu.probe import probe
    from sgl_cpu.runtime import CpuRuntime

    made: list[Any] = []

    def make(folder: Path, **values: Any) -> Any:
        chosen = {"model_path": str(folder), "max_total_tokens": 512, "max_running_requests": 8, "cpu_threads": 1}
        info = model_info_from_config(json.loads((folder / "config.json").read_text()), str(folder))
        plan = make_plan(
            registries=registries,
            config=Config({**chosen, "kv_cache_dtype": "auto", "page_size": 4, **values}),
            facts=probe(),
            model=info,
            explicit=lambda field: False,
        )
        worker: Any = CpuRuntime(plan, registries).make_worker(0)
        made.append(worker)
        worker.load(lambda what, done, total: None)
        return worker

    yield make
    for worker in made:
        worker.close()
