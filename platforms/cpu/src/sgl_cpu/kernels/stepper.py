"""KernelStepper: plain greedy decode steps from StepBatch to StepResult by one replay, with a few numpy calls around it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sgl_core.api.worker import StepBatch, StepResult
from sgl_torch.model_runner import ModelRunner
from sgl_torch.stepping import Sampler, Stepper

from .sampler import KernelSampler
from .tape import TapeRunner

NOT_FINITE = "the model computed values that are not finite for this request"


class KernelStepper(Stepper):
    """Whatever is not plain (prefill, masks, log-probabilities, penalties, draws, vectors) goes the usual way, with the same tokens."""

    def __init__(self, runner: ModelRunner, sampler: Sampler) -> None:
        super().__init__(runner, sampler)
        self._last = runner.last_tokens.numpy()
        self.on_compute: Callable[[], None] = lambda: None
        """See :class:`~sgl_cpu.kernels.session.Kernels`."""

    def run(self, step: StepBatch) -> StepResult:
        result = self._replay(step)
        if result is None:
            self.on_compute()
            result = super().run(step)
        return result

    def _replay(self, step: StepBatch) -> StepResult | None:
        graph, sampler, slots = self._runner.graph, self._sampler, step.slots
        if not (isinstance(graph, TapeRunner) and isinstance(sampler, KernelSampler)):
            return None
        if step.new_requests or step.freed_slots or step.page_copies is not None or step.masks is not None:
            return None  # those that come and go are seen to by the usual way
        if len(step.token_ids) != len(slots) or not step.sample.all() or self._scoring or self._refused:
            return None
        if not sampler.wants_arg_max(slots) or any(self._requests[slot].embed for slot in slots.tolist()):
            return None
        ids = np.where(step.token_ids < 0, self._last[slots], step.token_ids)
        found = graph.greedy(step, ids)
        if found is None:
            return None
        tokens, finite = found
        result = StepResult(step_id=step.step_id, tokens=tokens)
        if finite.all():
            self._last[slots] = tokens
            sampler.count(slots)
            return result
        self._last[slots[finite]] = tokens[finite]
        sampler.count(slots[finite])
        tokens[~finite] = -1
        result.errors = {int(row): NOT_FINITE for row in np.flatnonzero(~finite)}
        return result
