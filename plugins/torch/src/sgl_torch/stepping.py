"""Stepper: one step from StepBatch to StepResult: forward, sample, prompt log-probabilities, pooled vectors, per-row errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from sgl_core.api.worker import NewRequest, RowLogprobs, StepBatch, StepResult

from .forward_batch import ForwardBatch
from .model_runner import ModelRunner
from .prompt_logprobs import prompt_logprobs

NOT_FINITE = "the model computed values that are not finite for this request"


class Sampler(Protocol):
    """The contract of samplers (registry ``samplers``): made as ``Sampler(vocab_size, max_requests, device)``."""

    def admit(self, request: NewRequest) -> None:
        """Remember a request's parameters. Raises ValueError when they cannot be served."""
        ...

    def free(self, slot: int) -> None: ...

    def sample(
        self,
        logits: torch.Tensor,
        slots: list[int],
        masks: NDArray[np.int32] | None,
        mask_rows: list[int],
    ) -> tuple[torch.Tensor, dict[int, RowLogprobs]]:
        """Draw from ``logits`` [R, V] fp32, which may be overwritten; ``mask_rows`` count in these rows.

        Returns tokens [R] int64 on the logits' device, and log-probabilities by row for requests that want them.
        A sampler that runs logit processors has ``find_processor``, which the worker sets, and keeps in ``errors`` which rows
        of its last call failed in theirs (see :mod:`sgl_torch.sampling.processors`).
        """
        ...


_NO_ERRORS: dict[int, str] = {}


class Stepper:
    """Holds what the steps of a request need of it; one instance, used on the step thread only."""

    def __init__(self, runner: ModelRunner, sampler: Sampler) -> None:
        self._runner = runner
        self._sampler = sampler
        self._requests: dict[int, NewRequest] = {}
        self._refused: dict[int, str] = {}
        self._scoring: set[int] = set()
        self._pool: Callable[[torch.Tensor, ForwardBatch], torch.Tensor] | None = getattr(runner.model, "pool", None)
        """See :class:`~sgl_torch.model_runner.PoolingModel`."""

    @torch.inference_mode()
    def run(self, step: StepBatch) -> StepResult:
        """Run one step. A request that fails alone is in ``errors``; what fails for all is raised."""
        self._take_in(step)
        runner = self._runner
        batch = runner.prepare(step)
        slots = step.slots.tolist()
        if self._pool is not None:
            batch.second_segments = np.array([self._requests[slot].second_segment for slot in slots], dtype=np.int64)
        hidden = self._hidden(batch, step)
        result = StepResult(step_id=step.step_id, tokens=np.full(len(slots), -1, dtype=np.int32))
        for row, slot in enumerate(slots):
            if slot in self._refused:
                result.errors[row] = self._refused[slot]
                result.refused.add(row)
        wanted = np.flatnonzero(step.sample)
        if len(wanted) and self._pool is not None:
            self._pool_rows(self._pool(hidden, batch), batch, wanted.tolist(), slots, result)
        elif len(wanted):
            self._finish_rows(step, batch, hidden, wanted, slots, result)
        if self._scoring:
            self._score_prompts(batch, hidden, slots, result)
        return result

    def _hidden(self, batch: ForwardBatch, step: StepBatch) -> torch.Tensor:
        """Hidden states [T, hidden] of all tokens: what comes before the head."""
        return self._runner.hidden(batch)

    def _take_in(self, step: StepBatch) -> None:
        for slot in step.freed_slots:
            self._scoring.discard(slot)
            if self._requests.pop(slot, None) is not None and self._refused.pop(slot, None) is None:
                self._sampler.free(slot)
        for request in step.new_requests:
            self._requests[request.slot] = request
            self._refused.pop(request.slot, None)
            if request.logprobs.prompt_start >= 0 and not request.output_ids:
                self._scoring.add(request.slot)
            try:
                if request.logit_processor is not None and not hasattr(self._sampler, "find_processor"):
                    raise ValueError("the chosen sampler runs no logit processors; use the sampling backend pytorch")
                self._sampler.admit(request)
            except ValueError as error:
                self._refused[request.slot] = str(error)

    def _pool_rows(
        self, vectors: torch.Tensor, batch: ForwardBatch, rows: list[int], slots: list[int], result: StepResult
    ) -> None:
        """The answers of a model that pools: ``vectors`` [R, size]."""
        finite = torch.isfinite(vectors).all(-1).tolist()
        values = vectors.float().cpu().numpy()
        for row in rows:
            if row in result.errors:
                continue
            if not self._requests[slots[row]].embed:
                result.errors[row] = "this model answers with vectors and generates no text"
            elif batch.context_lens[row]:
                result.errors[row] = (
                    "the prompt came in pieces; this model must read it whole (chunked_prefill_size -1)"
                )
            elif not finite[row]:
                result.errors[row] = NOT_FINITE
            else:
                result.embeddings[row] = values[row]

    def _finish_rows(
        self,
        step: StepBatch,
        batch: ForwardBatch,
        hidden: torch.Tensor,
        wanted: NDArray[np.int64],
        slots: list[int],
        result: StepResult,
    ) -> None:
        """Sample the rows that generate, pool those that embed."""
        last = self._runner.rows(hidden, batch.last_index[wanted])
        rows = wanted.tolist()
        broken = (~torch.isfinite(last).all(-1)).tolist()
        for i, row in enumerate(rows):
            if broken[i]:
                result.errors[row] = NOT_FINITE
        draw: list[int] = []
        for i, row in enumerate(rows):
            if row in result.errors:
                continue
            if self._requests[slots[row]].embed:
                result.embeddings[row] = F.normalize(last[i].float(), dim=-1).cpu().numpy()
            else:
                draw.append(i)
        if not draw:
            return
        if len(draw) < len(rows):
            last = last[draw]
        self._draw(step, self._runner.model.logits(last), [rows[i] for i in draw], slots, result)

    def _draw(
        self, step: StepBatch, logits: torch.Tensor, rows: list[int], slots: list[int], result: StepResult
    ) -> None:
        """The next tokens of some ``rows``, whose ``logits`` [len(rows), vocab] may be overwritten."""
        runner = self._runner
        drawn = [slots[row] for row in rows]
        masks, mask_rows = masks_of(step, rows)
        tokens, logprobs = self._sampler.sample(logits, drawn, masks, mask_rows)
        runner.last_tokens[torch.tensor(drawn, device=runner.device)] = tokens.to(torch.int64)
        result.tokens[rows] = tokens.to(torch.int32).cpu().numpy()
        for i, row_logprobs in logprobs.items():
            result.logprobs[rows[i]] = row_logprobs
        for i, why in getattr(self._sampler, "errors", _NO_ERRORS).items():
            result.errors[rows[i]] = why
            result.refused.add(rows[i])
            result.tokens[rows[i]] = -1

    def _score_prompts(self, batch: ForwardBatch, hidden: torch.Tensor, slots: list[int], result: StepResult) -> None:
        for row, slot in enumerate(slots):
            if slot not in self._scoring or row in result.errors:
                continue
            request = self._requests[slot]
            count, context = int(batch.query_lens[row]), int(batch.context_lens[row])
            targets = request.prompt_ids[context + 1 : context + 1 + count]
            if targets:
                first = int(batch.last_index[row]) + 1 - count
                chunk = hidden[first : first + len(targets)]
                result.prompt_logprobs[row] = prompt_logprobs(
                    chunk, self._runner.model.logits, targets, context + 1, request.logprobs
                )


def masks_of(step: StepBatch, rows: list[int]) -> tuple[Any, list[int]]:
    """The batch's masks by place among the sampled ``rows``; masks of rows that are not sampled fall away."""
    if step.masks is None or not step.mask_rows:
        return None, []
    if step.masks_ready is not None:
        step.masks_ready.wait()
    place = {row: i for i, row in enumerate(rows)}
    kept = [i for i, row in enumerate(step.mask_rows) if row in place]
    masks = step.masks if len(kept) == len(step.mask_rows) else step.masks[kept]
    return masks, [place[step.mask_rows[i]] for i in kept]
