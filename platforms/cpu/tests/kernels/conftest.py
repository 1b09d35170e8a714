"""Builds the kernel library once if it is not there, makes tiny checkpoints, and loads them with the kernels."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sgl_core.config import Config
from sgl_core.config.model_info import model_info_from_config
from sgl_core.plan import make_plan
from sgl_core.registry import Registries
from sgl_cpu.probe import probe
from sgl_cpu.runtime import CpuRuntime
from sgl_ops.build import build
from sgl_ops.library import available, source_dir
from sgl_torch.exactness import ask_for_strict_matmul
from sgl_torch.testing import tiny_models

ask_for_strict_matmul()
if not available() and source_dir() is not None:
    build(quiet=True)
    available.__globals__["_open"].cache_clear()


@pytest.fixture(scope="session")
def registries() -> Registries:
    return Registries.discover()


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any]]:
    """``checkpoint(case)``: the folder and the transformers model of a case of ``tiny_models``, made once."""
    made: dict[str, tuple[Path, Any]] = {}

    def get(name: str) -> tuple[Path, Any]:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            made[name] = folder, tiny_models.make(name, folder)
        return made[name]

    return get


@pytest.fixture
def make_plan_of(registries: Registries, checkpoint: Callable[[str], tuple[Path, Any]]) -> Callable[..., Any]:
    """``make_plan_of(case, asked=(fields,), **config)``."""

    def make(case: str, asked: tuple[str, ...] = (), **values: Any) -> Any:
        folder, _ = checkpoint(case)
        chosen = {"model_path": str(folder), "max_total_tokens": 2048, "max_running_requests": 24, "cpu_threads": 1}
        chosen |= {"kv_cache_dtype": "auto", "page_size": 4, **values}
        info = model_info_from_config(json.loads((folder / "config.json").read_text()), str(folder))
        return make_plan(
            registries=registries,
            config=Config(chosen),
            facts=probe(),
            model=info,
            explicit=lambda field: field in asked,
        )

    return make


@pytest.fixture
def worker_of(make_plan_of: Callable[..., Any], registries: Registries) -> Any:
    """``worker_of(case, **config)``: a loaded worker, closed after the test."""
    made: list[Any] = []

    def make(case: str, asked: tuple[str, ...] = (), **values: Any) -> Any:
        worker: Any = CpuRuntime(make_plan_of(case, asked, **values), registries).make_worker(0)
        made.append(worker)
        worker.notes = worker.load(lambda what, done, total: None).notes
        return worker

    yield make
    for worker in made:
        worker.close()
