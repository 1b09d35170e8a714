"""KernelStepper: decode steps from StepBatch to StepResult by one replay and one choice, with a few numpy calls around them."""

from __future__ import annotations

import numpy as np
import torch

from sgl_core.api.worker import StepBatch, StepResult
from sgl_torch.forward_batch import ForwardBatch
from sgl_torch.model_runner import ModelRunner
from sgl_torch.stepping import NOT_FINITE, Sampler, Stepper

from .sampler import KernelSampler
from .session import Kernels
from .tape import TapeRunner


class KernelStepper(Stepper):
    """Other steps (prefill chunks, vectors, log-probabilities of prompts, copied pages) go the usual way, with the same tokens."""

    def __init__(self, runner: ModelRunner, sampler: Sampler) -> None:
        super().__init__(runner, sampler)
        self._last = runner.last_tokens.numpy()
        self.kernels: Kernels | None = None
        """The session of the model, for what depends on which tokens are of prompts."""

    def _hidden(self, batch: ForwardBatch, step: StepBatch) -> torch.Tensor:
        if self.kernels is None:
            return super()._hidden(batch, step)
        with self.kernels.prompts(step):
            return super()._hidden(batch, step)

    def run(self, step: StepBatch) -> StepResult:
        graph = self._runner.graph
        if self.decodes(step) and isinstance(graph, TapeRunner) and graph.ready(len(step.slots)):
            self._take_in(step)
            return self._replay(step, graph)
        return super().run(step)

    def decodes(self, step: StepBatch) -> bool:
        """Whether every row of the step has one token and wants nothing but the next."""
        if len(step.token_ids) != len(step.slots) or step.prompts_from not in (None, len(step.slots)):
            return False
        if step.new_requests or step.page_copies is not None or self._scoring:
            return False
        if not step.sample.all():
            return False
        requests = [self._requests.get(slot) for slot in step.slots.tolist()]
        return all(request is not None and not request.embed for request in requests)

    def _replay(self, step: StepBatch, graph: TapeRunner) -> StepResult:
        slots = step.slots
        ids = np.where(step.token_ids < 0, self._last[slots], step.token_ids)
        logits, finite = graph.logits(step, ids)
        result = StepResult(step_id=step.step_id, tokens=np.full(len(slots), -1, dtype=np.int32))
        if self._refused or not finite.all():
            result.errors = dict.fromkeys(np.flatnonzero(~finite).tolist(), NOT_FINITE)
            result.refused = {row for row, slot in enumerate(slots.tolist()) if slot in self._refused}
            result.errors |= {row: self._refused[int(slots[row])] for row in result.refused}
        if result.errors:
            rows = np.array([row for row in range(len(slots)) if row not in result.errors], dtype=np.int64)
            if not len(rows):
                return result
            logits, slots = logits[rows], slots[rows]
        else:
            rows = np.arange(len(slots))
        sampler = self._sampler
        if step.masks is None and isinstance(sampler, KernelSampler) and sampler.wants_arg_max(slots):
            result.tokens[rows] = self._last[slots] = sampler.arg_max(logits, slots)
        else:
            with torch.inference_mode():
                self._draw(step, logits, rows.tolist(), step.slots.tolist(), result)
        return result
