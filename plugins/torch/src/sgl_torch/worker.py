"""TorchWorker: the ModelWorker of every platform that computes with torch. Steps run in order on one thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from sgl_core.api import ModelInfo
from sgl_core.api.worker import Capacity, ProgressSink, Step, StepBatch, StepResult

from .exactness import ask_for_strict_matmul
from .graph import GraphRunnerFactory
from .loading import Loaded, checkpoint, fill, load
from .model_runner import ModelRunner
from .sampling.processor_library import ProcessorLibrary
from .settings import RuntimeSettings
from .stepping import Stepper
from .weights import weight_slots

if TYPE_CHECKING:
    from sgl_core.plan import Plan
    from sgl_core.registry import Registries

log = logging.getLogger("sgl_torch")


class TorchStep:
    """A step that runs, or waits for the one before it, on the worker's thread."""

    __slots__ = ("_future",)

    def __init__(self, future: Future[StepResult]) -> None:
        self._future = future

    def done(self) -> bool:
        return self._future.done()

    def result(self) -> StepResult:
        return self._future.result()


class TorchWorker:
    """Made by a platform's runtime. ``setup`` runs first on the step thread (thread counts, affinity); ``shared`` is what the
    platform's ops and attention backend find in ``OpContext.shared``."""

    def __init__(
        self,
        info: ModelInfo,
        settings: RuntimeSettings,
        registries: Registries,
        *,
        sampler: str = "pytorch",
        graph_runner: GraphRunnerFactory | None = None,
        setup: Callable[[], None] | None = None,
        shared: dict[str, Any] | None = None,
    ) -> None:
        self._info = info
        self._settings = settings
        self._registries = registries
        self._sampler = sampler
        self._graph_runner = graph_runner
        self._shared = shared
        self._loaded: Loaded | None = None
        self._stepper: Stepper | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sgl-step", initializer=setup)
        self._controls: dict[str, Callable[..., Any]] = {
            "get_weight": self._get_weight,
            "update_weights_from_disk": self._update_weights_from_disk,
        }

    late_masks = True
    stepper: type[Stepper] = Stepper
    """What runs the steps; a platform's worker may know a shorter way for some of them."""

    @classmethod
    def from_plan(cls, plan: Plan, registries: Registries, *, device: str, threads: int, **options: Any) -> TorchWorker:
        """A worker as the plan describes it."""
        settings = RuntimeSettings.from_plan(plan, device=device, threads=threads)
        chosen = plan.selection.get("samplers")
        return cls(plan.model, settings, registries, sampler=chosen["name"] if chosen else "pytorch", **options)

    @property
    def runner(self) -> ModelRunner:
        """The model runner, once loaded: for tests, graph capture and measurements."""
        return self._require().runner

    def load(self, progress: ProgressSink) -> Capacity:
        """Load on the step thread. Raises what went wrong, with a message for the operator."""
        return self._thread.submit(self._load, progress).result()

    def _load(self, progress: ProgressSink) -> Capacity:
        ask_for_strict_matmul()
        loaded = load(self._info, self._settings, self._registries, progress, shared=self._shared)
        runner = loaded.runner
        make_sampler = self._registries.samplers.load(self._sampler)
        sampler = make_sampler(self._info.vocab_size, self._settings.max_requests, runner.device)
        if hasattr(sampler, "find_processor"):
            library = ProcessorLibrary(self._registries, serialized=self._settings.serialized_processors)
            sampler.find_processor = library.find
        self._stepper = self.stepper(runner, sampler)
        notes = loaded.capacity.notes
        if self._graph_runner is not None:
            runner.graph = self._graph_runner(runner)
            if runner.graph is not None:
                runner.graph.capture(progress)
                notes = (*notes, *runner.graph.notes)
        self._loaded = loaded
        return replace(loaded.capacity, notes=notes)

    def submit(self, batch: StepBatch) -> Step:
        """Queue a step. An error in it is raised by its ``result``; later steps run all the same."""
        if self._stepper is None:
            raise RuntimeError("the worker has no model yet: call load() first")
        return TorchStep(self._thread.submit(self._stepper.run, batch))

    def control(self, op: str, args: dict[str, Any]) -> Any:
        """Serve ``op`` between steps. Raises KeyError for one that this worker lacks, ValueError for bad arguments."""
        if op not in self._controls:
            raise KeyError(f"the torch worker has no operation {op!r}; it has {', '.join(sorted(self._controls))}")
        return self._thread.submit(self._controls[op], **args).result()

    def close(self) -> None:
        """Finish the steps that are queued, then end the thread."""
        self._thread.shutdown(wait=True)
        self._loaded = self._stepper = None

    def _require(self) -> Loaded:
        if self._loaded is None:
            raise RuntimeError("the worker has no model yet: call load() first")
        return self._loaded

    def _get_weight(self, name: str, truncate_size: int = 100) -> list[Any]:
        """The first ``truncate_size`` rows of a checkpoint tensor as nested lists of floats."""
        slots = weight_slots(self._require().model)
        if name not in slots:
            raise ValueError(f"the model has no weight {name!r}; names are those of the checkpoint")
        values: list[Any] = slots[name].read()[:truncate_size].float().tolist()
        return values

    def _update_weights_from_disk(self, model_path: str, load_format: str | None = None) -> dict[str, Any]:
        """Replace the weights by those of a folder or file of the same architecture. The caller flushes cached pages.

        When the new weights do not fit, the old ones are loaded again and the error is raised.
        """
        loaded = self._require()
        info = replace(self._info, path=model_path)
        settings = replace(self._settings, load_format=load_format or "auto")
        try:
            self._refill(loaded, info, settings)
        except Exception:
            log.exception("new weights from %s do not fit; the old ones are loaded again", model_path)
            self._refill(loaded, self._info, self._settings)
            raise
        self._info, self._settings = info, settings
        return {"success": True, "message": f"weights of {model_path} are in use"}

    @torch.inference_mode()
    def _refill(self, loaded: Loaded, info: ModelInfo, settings: RuntimeSettings) -> None:
        fill(loaded.model, checkpoint(info, settings, self._registries, loaded.model, loaded.dtype), _silent)


def _silent(what: str, done: int, total: int) -> None:
    """A progress sink for work nobody watches."""
