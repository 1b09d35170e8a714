"""The TorchWorker of a CPU plan: with the kernels' session, the decode tape and one torch thread where the kernels serve."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import torch

from sgl_core.api.worker import Capacity, ProgressSink, StepBatch, StepResult
from sgl_torch.graph import GraphRunner
from sgl_torch.model_runner import ModelRunner
from sgl_torch.settings import RuntimeSettings
from sgl_torch.stepping import Stepper
from sgl_torch.worker import TorchStep, TorchWorker

from .choice import choose
from .session import NAME, Kernels
from .stepper import KernelStepper
from .tape import GraphOptions, TapeRunner

if TYPE_CHECKING:
    from sgl_core.plan import Plan
    from sgl_core.registry import Registries

log = logging.getLogger("sgl_cpu")


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
    """A TorchWorker with a short way for plain decode steps, that can also measure itself against its machine (operation
    ``roofline``).

    A step's result is handed over when the next step, if one is waiting already, has left Python: else the scheduler, which
    wakes with the result, would take the interpreter from the step thread and the cores would idle meanwhile (0.4 ms a step).
    """

    stepper = KernelStepper

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._controls["roofline"] = self._roofline
        self._waiting: deque[Future[StepResult]] = deque()
        self._held: tuple[Future[StepResult], StepResult] | None = None

    def submit(self, batch: StepBatch) -> TorchStep:
        stepper = self._stepper
        if stepper is None:
            raise RuntimeError("the worker has no model yet: call load() first")
        future: Future[StepResult] = Future()
        self._waiting.append(future)
        self._thread.submit(self._run, stepper, batch)
        return TorchStep(future)

    def _load(self, progress: ProgressSink) -> Capacity:
        capacity = super()._load(progress)
        assert isinstance(self._stepper, KernelStepper)
        assert self._shared is not None
        self._shared[NAME].on_compute = self._stepper.on_compute = self._hand_over
        return capacity

    def _run(self, stepper: Stepper, batch: StepBatch) -> None:
        future = self._waiting.popleft()
        try:
            result = stepper.run(batch)
        except BaseException as error:
            self._hand_over()
            future.set_exception(error)
            return
        self._hand_over()
        if self._waiting:  # its step is next on this thread
            self._held = future, result
        else:
            future.set_result(result)

    def _hand_over(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held[0].set_result(held[1])

    def _roofline(self) -> dict[str, Any]:
        """See :func:`sgl_cpu.roofline.roofline`. Nothing may be in flight; cached pages are overwritten."""
        from ..roofline import roofline

        stepper = self._stepper
        assert stepper is not None, "control operations come after load"
        sampler = self._registries.samplers.load(self._sampler)
        with torch.inference_mode():
            return roofline(self.runner, stepper.run, self._info.vocab_size, self._settings.threads, sampler)
