"""The TorchWorker of a CPU plan: with the kernels' session, the decode tape and one torch thread where the kernels serve."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from sgl_core.api.worker import Capacity, ProgressSink, Step, StepBatch, StepResult
from sgl_torch.graph import GraphRunner
from sgl_torch.model_runner import ModelRunner
from sgl_torch.settings import RuntimeSettings
from sgl_torch.worker import TorchWorker

from ..cpus import allowed_cpus
from .choice import choose
from .session import NAME, Kernels
from .stepper import KernelStepper
from .tape import GraphOptions, TapeRunner

if TYPE_CHECKING:
    from sgl_core.plan import Plan
    from sgl_core.registry import Registries

log = logging.getLogger("sgl_cpu")

_PREFILL_STEP = 0.2
"""Seconds. Chunks of a few hundred tokens compute as fast as longer ones, and a reader hardly notices the pause."""


def make_worker(plan: Plan, registries: Registries, *, threads: int, setup: Callable[[], None]) -> TorchWorker:
    """Raises ValueError where a backend that was asked for cannot serve."""
    settings = RuntimeSettings.from_plan(plan, device="cpu", threads=threads)
    choice = choose(plan, settings, torch.device("cpu"))
    if choice.why_not:
        log.warning("slow: torch attends and multiplies instead of the kernels of sgl-ops: %s", choice.why_not)
    kernels = Kernels(threads=threads, exact=bool(plan.config.get("cpu_exact_activations")))
    options = GraphOptions.from_config(plan.config, choice.settings.max_requests)

    def graphs(runner: ModelRunner) -> GraphRunner | None:
        if NAME not in {name[: len(NAME)] for name in runner.ops.chosen.values()}:
            return None
        # The kernels' pool computes; torch's own threads would only take cores from it. (OpenMP counts by calling thread.)
        torch.set_num_threads(1)
        if not runner.pool.k:
            return None  # an encoder: it never decodes
        return TapeRunner(runner, kernels, options, heading=kernels.note(choice.sampler))

    return CpuWorker(
        plan.model,
        choice.settings,
        registries,
        sampler=choice.sampler,
        graph_runner=graphs,
        setup=setup,
        shared={NAME: kernels},
    )


class CpuWorker(TorchWorker):
    """A TorchWorker with a short way for decode steps, that can also measure itself against its machine (operation ``roofline``).

    Where the kernels take every CPU of the process, a step and the scheduling of the next one would only take cores from each other:
    steps then do not overlap, and decode steps run on the caller's thread, which saves two changes of thread a step; masks are filled before
    their step. What other processes have to do for a token falls into the gap between two steps.
    """

    stepper = KernelStepper

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._controls["roofline"] = self._roofline
        self.overlaps = self._settings.threads < allowed_cpus()
        self.late_masks = self.overlaps
        self._direct = DirectStep(None)
        self._queued: Step = self._direct

    def load(self, progress: ProgressSink) -> Capacity:
        capacity = super().load(progress)
        if self.runner.graph is not None:
            torch.set_num_threads(1)  # here too: steps run on this thread
        return replace(capacity, prefill_step_seconds=_PREFILL_STEP)

    def _load(self, progress: ProgressSink) -> Capacity:
        capacity = super()._load(progress)
        if isinstance(self._stepper, KernelStepper) and self._shared is not None:
            self._stepper.kernels = self._shared[NAME]
        return capacity

    def submit(self, batch: StepBatch) -> Step:
        stepper = self._stepper
        self._direct.run()
        here = not self.overlaps and batch.masks_ready is None and self._queued.done()
        if here and isinstance(stepper, KernelStepper) and stepper.decodes(batch):
            self._direct = DirectStep(partial(stepper.run, batch))
            return self._direct
        self._queued = super().submit(batch)
        return self._queued

    def _roofline(self) -> dict[str, Any]:
        """See :func:`sgl_cpu.roofline.roofline`. Nothing may be in flight; cached pages are overwritten."""
        from ..roofline import roofline

        stepper = self._stepper
        assert stepper is not None, "control operations come after load"
        sampler = self._registries.samplers.load(self._sampler)
        with torch.inference_mode():
            return roofline(self.runner, stepper.run, self._info.vocab_size, self._settings.threads, sampler)


class DirectStep:
    """A step that runs when somebody asks for its result, on that thread."""

    __slots__ = ("_compute", "_error", "_result")

    def __init__(self, compute: Callable[[], StepResult] | None) -> None:
        self._compute = compute
        self._result: StepResult | None = None
        self._error: Exception | None = None

    def done(self) -> bool:
        return self._compute is None

    def run(self) -> None:
        """Compute the result, once."""
        compute, self._compute = self._compute, None
        if compute is not None:
            try:
                self._result = compute()
            except Exception as error:
                self._error = error

    def result(self) -> StepResult:
        self.run()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result
