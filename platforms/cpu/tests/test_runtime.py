"""The runtime: thread counts, and a worker made from a plan that serves a step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from sgl_core.config import Config
from sgl_core.config.model_info import model_info_from_config
from sgl_core.plan import Plan, make_plan
from sgl_core.registry import Registries
from sgl_cpu.probe import probe
from sgl_cpu.runtime import CpuRuntime, thread_count
from sgl_torch.exactness import ask_for_strict_matmul
from sgl_torch.testing import tiny_models
from sgl_torch.worker import TorchWorker

ask_for_strict_matmul()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("qwen2")
    tiny_models.make("qwen2", path)
    return path


def plan(folder: Path, **values: Any) -> tuple[Plan, Registries]:
    registries = Registries.discover()
    chosen = {"model_path": str(folder), "attention_backend": "torch_native", "max_total_tokens": 512, **values}
    info = model_info_from_config(json.loads((folder / "config.json").read_text()), str(folder))
    made = make_plan(registries=registries, config=Config(chosen), facts=probe(), model=info)
    return made, registries


def test_thread_count() -> None:
    assert thread_count(None, 6) == 6
    assert thread_count(2, 6) == 2
    for asked in (0, 7):
        with pytest.raises(ValueError, match=rf"cpu_threads {asked} is not possible.*use 1 to 6"):
            thread_count(asked, 6)


def test_worker_from_a_plan_that_crossed_a_process_border(folder: Path) -> None:
    made, _ = plan(folder, cpu_threads=1)
    worker = Plan.from_json(made.to_json()).runtime().make_worker(0)
    assert isinstance(worker, TorchWorker)
    capacity = worker.load(lambda what, done, total: None)
    assert (capacity.num_pages, capacity.vocab_size) == (512, 199)
    assert "attention: torch_native" in capacity.notes
    worker.close()


def test_threads_hold_on_the_step_thread(folder: Path) -> None:
    made, registries = plan(folder, cpu_threads=1)
    before = torch.get_num_threads()
    try:
        worker: Any = CpuRuntime(made, registries).make_worker(0)
        assert worker._thread.submit(torch.get_num_threads).result() == 1
        worker.close()
    finally:
        torch.set_num_threads(before)


def test_only_rank_zero(folder: Path) -> None:
    made, registries = plan(folder)
    with pytest.raises(ValueError, match="rank 1 is not served"):
        CpuRuntime(made, registries).make_worker(1)


def test_parallelism_that_is_not_served_is_refused(folder: Path) -> None:
    made, registries = plan(folder, tp_size=2)
    with pytest.raises(ValueError, match="tp_size 2 is not served"):
        CpuRuntime(made, registries).make_worker(0)


@pytest.mark.field_case("185")
def test_affinity_of_the_process_is_obeyed(folder: Path) -> None:
    """Field case 185: a process bound to one CPU computes with one thread."""
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "import torch; from sgl_cpu.cpus import allowed_cpus; from sgl_cpu.runtime import thread_count\n"
        "print(thread_count(None, allowed_cpus()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "1"


def test_the_environment_is_ready_before_torch_loads(folder: Path) -> None:
    """libgomp and MKL read theirs once. What the user set stays."""
    code = (
        "import os, sys; os.environ.pop('MKL_CBWR', None); os.environ['OMP_WAIT_POLICY'] = 'ACTIVE'\n"
        "import sgl_cpu.runtime\n"
        "assert 'torch' not in sys.modules\n"
        "from sgl_core.plan import Plan\n"
        "sgl_cpu.runtime.CpuRuntime(Plan.from_json(sys.stdin.read()))\n"
        "print(os.environ['MKL_CBWR'], os.environ['OMP_WAIT_POLICY'])"
    )
    text = plan(folder)[0].to_json()
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == ["AUTO,STRICT", "ACTIVE"]
