"""CpuRuntime: what the CPU platform gives a worker process: its environment, its thread count and a TorchWorker on the CPU."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sgl_core.api.worker import ModelWorker

from .cpus import allowed_cpus
from .environment import prepare_environment

if TYPE_CHECKING:
    from sgl_core.plan import Plan
    from sgl_core.registry import Registries

log = logging.getLogger("sgl_cpu")


class CpuRuntime:
    """Made from the plan in the worker process. Raises ValueError for a thread count that this process may not have."""

    def __init__(self, plan: Plan, registries: Registries | None = None) -> None:
        self._plan = plan
        self._registries = registries
        self.threads = thread_count(plan.config.get("cpu_threads"), allowed_cpus())
        prepare_environment()

    def make_worker(self, rank: int) -> ModelWorker:
        """The worker of ``rank``; only rank 0 exists on this platform. Raises ValueError for another, and for an attention
        backend that was asked for and cannot serve."""
        if rank != 0:
            raise ValueError(f"the CPU platform runs one worker, rank {rank} is not served")
        # These import torch, which must find the environment prepared.
        from .kernels.worker import make_worker

        self.set_threads()
        log.info("cpu: %d threads of %d allowed CPUs", self.threads, allowed_cpus())
        registries = self._registries or self._plan.registries()
        return make_worker(self._plan, registries, threads=self.threads, setup=self.set_threads)

    def set_threads(self) -> None:
        """Set torch's pool for the calling thread (OpenMP keeps the count by thread) and those made later."""
        import torch

        torch.set_num_threads(self.threads)


def thread_count(asked: int | None, allowed: int) -> int:
    """The number of compute threads: ``asked``, or every allowed CPU. Raises ValueError when more are asked than allowed."""
    if asked is None:
        return allowed
    if not 1 <= asked <= allowed:
        raise ValueError(
            f"cpu_threads {asked} is not possible: this process may use {allowed} CPUs (affinity and cgroup quota); "
            f"use 1 to {allowed}"
        )
    return asked
