"""Batching: from the engine's state to the next StepBatch. Decode rows come first, then prefill chunks, within the budgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sgl_core.api.worker import Ints, StepBatch

from .admission import Admission, back_to_queue, introduce, portion
from .limits import UNLIMITED
from .pace import LEAST
from .request import DECODE, Request
from .retraction import preemptable, victim
from .state import Chunk, EngineState, Flight

_NONE: Ints = np.zeros(0, dtype=np.int32)

_PREFILL_SHARE = 4
"""In a mixed step decode rows may push the prefill chunk down to this fraction of its size, not further."""


class Decodes(NamedTuple):
    """The decode rows of a step, their pages taken: slots, context lengths, KV slots to write."""

    rows: Ints
    context: Ints
    write: Ints


_NO_DECODES = Decodes(_NONE, _NONE, _NONE)


class Batcher:
    """``settle`` takes in every step under way (so that all outputs are known); ``finish`` ends a request for lack of pages;
    ``give_up`` frees what a retracted request holds."""

    def __init__(
        self,
        state: EngineState,
        admission: Admission,
        settle: Callable[[], None],
        finish: Callable[[Request], None],
        give_up: Callable[[Request], None],
        priority_sign: int,
    ) -> None:
        self._state = state
        self._admission = admission
        self._settle = settle
        self._finish = finish
        self._give_up = give_up
        self._sign = priority_sign
        self._decodes_since_prefill = UNLIMITED

    def build(self) -> tuple[StepBatch, Flight] | None:
        """The next step, or None when nothing can run now. Places and pages of its rows are taken."""
        self._preempt()
        limits = self._state.limits
        chunk = min(limits.chunked_prefill_size, limits.max_prefill_tokens)
        if limits.enable_mixed_chunk:
            decodes = self._decodes()
            if len(decodes.rows):
                chunk = self._state.pace.tokens(chunk)
            jumps = self._jumps(chunk)
            busy = len(decodes.rows) + sum(jump.count for jump in jumps)
            chunks = self._chunks(max(chunk - busy, chunk // _PREFILL_SHARE, 1), sole=not busy)
            return self._assemble(decodes, [*jumps, *chunks])
        decoders = bool(self._state.slots.decoding.any() or self._state.jumping)
        if not decoders or self._prompts_turn():
            budget = self._state.pace.tokens(chunk) if decoders else chunk
            chunks = self._chunks(budget, sole=True, spare=min(LEAST - 1, chunk - budget))
            if chunks:
                self._decodes_since_prefill = 0
                return self._assemble(_NO_DECODES, chunks, delays=decoders)
        self._decodes_since_prefill += 1
        self._state.pace.decoded()
        return self._assemble(self._decodes(), self._jumps(chunk))

    def _prompts_turn(self) -> bool:
        """Whether a prefill step may be next although requests decode: after so many decode steps as were asked for, or at once while
        the ones before it took little of their bound. Requests that came one after the other then decode together."""
        state, interval = self._state, self._state.limits.prefill_decode_interval
        if self._decodes_since_prefill >= max(1, interval):
            return True
        return not interval and not state.flights and state.pace.may_go_on

    def _decodes(self) -> Decodes:
        """The rows that decode in this step. Where their pages are not to be had, requests are retracted until they are."""
        state = self._state
        slots = state.slots
        while True:
            rows = np.flatnonzero(slots.decoding & (slots.out_planned < slots.out_limit)).astype(np.int32)
            need = len(rows)
            if need > state.holdings.available:
                need = int(np.count_nonzero(slots.lens[rows] % slots.page_size == 0))
            if need <= state.holdings.available:
                return Decodes(rows, *state.holdings.extend_rows(rows)) if len(rows) else _NO_DECODES
            if state.flights:
                self._settle()
            else:
                self._make_room(None)

    def _chunks(self, budget: int, sole: bool, spare: int = 0) -> list[Chunk]:
        """Prefill chunks of admitted requests, then of newly admitted ones; up to ``spare`` tokens more where they end a prompt."""
        state = self._state
        chunks = self._go_on(state.prefilling, budget, state.limits.prefill_max_requests, spare)
        budget -= sum(chunk.count for chunk in chunks)
        if state.prefilling:
            return chunks
        for request, count in self._admission.admit(budget, sole and not chunks, spare):
            count = min(count, state.holdings.room(request.slot))
            if count > 0:
                chunks.append(self._chunk(state.prefilling, request, count))
        return chunks

    def _jumps(self, budget: int) -> list[Chunk]:
        """The forced tokens of requests that jumped ahead, with the sampled one before them. The worker is told of such a request as
        of one that comes back with its output, so that all it counts is right."""
        state = self._state
        chunks = self._go_on(state.jumping, budget) if state.jumping else []
        for chunk in chunks:
            if chunk.last:
                state.slots.freed.append(chunk.request.slot)
                state.newcomers.append(introduce(chunk.request))
        return chunks

    def _go_on(self, under_way: list[Request], budget: int, most: int = UNLIMITED, spare: int = 0) -> list[Chunk]:
        """The next chunks of requests that are partly computed; those that this completes leave the list."""
        state = self._state
        chunks: list[Chunk] = []
        for request in list(under_way):
            if budget <= 0 or len(chunks) >= most:
                break
            todo = len(request.tokens) - int(state.slots.lens[request.slot])
            count = min(portion(todo, budget, spare), state.holdings.room(request.slot))
            if count <= 0:
                if not chunks and not state.flights and not state.slots.decoding.any():
                    self._make_room(request)
                break
            chunks.append(self._chunk(under_way, request, count))
            budget -= chunks[-1].count
        return chunks

    def _chunk(self, under_way: list[Request], request: Request, count: int) -> Chunk:
        state, slot = self._state, request.slot
        start = int(state.slots.lens[slot])
        if start < request.prompt_len:  # a worker may compute prompts another way than answers
            count = min(count, request.prompt_len - start)
        state.holdings.extend(slot, count)
        last = start + count == len(request.tokens)
        if last:
            under_way.remove(request)
        return Chunk(request, -1, start, count, last)

    def _assemble(self, decodes: Decodes, chunks: list[Chunk], delays: bool = False) -> tuple[StepBatch, Flight] | None:
        state, slots = self._state, self._state.slots
        rows, context, write = decodes
        if not len(rows) and not chunks:
            return None
        state.last_step = step_id = state.last_step + 1
        if len(rows):
            tokens = np.where(slots.pending_step[rows] >= 0, np.int32(-1), slots.last_token[rows])
            slots.out_planned[rows] += 1
            slots.pending_step[rows] = step_id
        else:
            tokens = _NONE
        query = np.ones(len(rows), dtype=np.int32)
        sample = np.ones(len(rows) + len(chunks), dtype=np.bool_)
        sampled: list[int] = []
        prompts = len(rows)
        if chunks:
            chunks.sort(key=_of_a_prompt)
            prompts += sum(not _of_a_prompt(chunk) for chunk in chunks)
            size = slots.page_size
            parts_tokens, parts_write = [tokens], [write]
            for number, chunk in enumerate(chunks):
                request, slot = chunk.request, chunk.request.slot
                chunk.row = len(rows) + number
                positions = np.arange(chunk.start, chunk.start + chunk.count, dtype=np.int32)
                parts_tokens.append(request.tokens[chunk.start : chunk.start + chunk.count])
                parts_write.append(slots.pages[slot, positions // size] * size + positions % size)
                draws = chunk.last and slots.out_planned[slot] < slots.out_limit[slot]
                sample[chunk.row] = draws or (chunk.last and request.message.embed)
                if draws and not request.message.embed:
                    sampled.append(chunk.row)
                    request.state = DECODE
                    slots.decoding[slot] = True
                    slots.out_planned[slot] += 1
                    slots.pending_step[slot] = step_id
            tokens, write = np.concatenate(parts_tokens), np.concatenate(parts_write)
            query = np.concatenate((query, np.array([chunk.count for chunk in chunks], dtype=np.int32)))
            context = np.concatenate((context, np.array([chunk.start for chunk in chunks], dtype=np.int32)))
            rows = np.concatenate((rows, np.array([chunk.request.slot for chunk in chunks], dtype=np.int32)))
        width = -(-int((context + query).max()) // slots.page_size)
        batch = StepBatch(
            step_id=step_id,
            slots=rows,
            token_ids=tokens,
            query_lens=query,
            context_lens=context,
            page_table=slots.pages[:, :width].take(rows, axis=0),
            write_slots=write,
            sample=sample,
            prompts_from=prompts,
            new_requests=state.newcomers,
            freed_slots=slots.freed,
        )
        state.newcomers, slots.freed = [], []
        plain = len(rows) - len(chunks)
        drawn = np.arange(plain + len(sampled), dtype=np.int32)
        drawn[plain:] = sampled
        self._bind_masks(batch, drawn)
        return batch, Flight(None, step_id, rows, drawn, chunks, delays)

    def _bind_masks(self, batch: StepBatch, drawn: Ints) -> None:
        """Say which rows are constrained; :meth:`fill_masks` says how."""
        slots = self._state.slots
        bound = drawn[slots.constrained[batch.slots[drawn]]]
        if not len(bound):
            return
        batch.masks = np.full((len(bound), -(-self._state.capacity.vocab_size // 32)), -1, dtype=np.int32)
        batch.mask_rows = bound.tolist()

    def fill_masks(self, batch: StepBatch) -> None:
        """Write the allowed tokens of constrained rows."""
        if batch.masks is None:
            return
        for number, row in enumerate(batch.mask_rows):
            request = self._state.slots.requests[int(batch.slots[row])]
            assert request is not None
            assert request.constraint is not None
            request.constraint.fill(batch.masks, number, request.output_ids)

    def _make_room(self, keep: Request | None) -> None:
        """Retract one request; where there is only one left it has the whole pool, and ends."""
        others = [request for request in self._state.running() if request is not keep]
        if len(others) + (keep is not None) > 1:
            loser = victim(self._state, others, self._sign)
            assert loser is not None
            self._admission.retracted()
            self.retract(loser)
        else:
            self._finish(keep or others[0])

    def retract(self, request: Request) -> None:
        """Back to the queue, with its output. No step may be under way."""
        self._state.counters.retractions += 1
        self._give_up(request)
        back_to_queue(self._state, request)

    def _preempt(self) -> None:
        """Let an important waiting request displace a much less important running one."""
        state = self._state
        if not self._sign or state.limits.disable_priority_preemption or not state.queue:
            return
        full = not state.slots.free_count or state.running_count() >= state.limits.max_running_requests
        if not (full or self._admission.short_of_pages):
            return
        head = state.queue.peek()
        if head is None or preemptable(state, head, self._sign) is None:
            return
        self._settle()
        loser = preemptable(state, head, self._sign)
        if loser is not None:
            self.retract(loser)


def _of_a_prompt(chunk: Chunk) -> bool:
    """False for tokens of an answer that are computed again, or that were appended without a step."""
    return chunk.start < chunk.request.prompt_len
