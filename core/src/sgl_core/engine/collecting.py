"""Collecting: from a finished step to appended tokens, ended requests and outputs. Vector operations first, then one lean loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sgl_core.api.worker import StepResult

from .messages import Output
from .outputs import add_logprobs, add_prompt_logprobs, make_output
from .request import Request
from .state import EngineState, Flight

_CROWD, _SHARE = 16, 2
"""A jump saves single tokens but makes its step one that is no plain decode for everybody in it. It must be of at least half as many
tokens as there are rows, and beside many rows nobody jumps."""


class Collector:
    """Appends to ``outputs``. ``finish(request, **end)`` ends a request and sends its last output."""

    def __init__(self, state: EngineState, outputs: list[Output], finish: Callable[..., None]) -> None:
        self._state = state
        self._outputs = outputs
        self._finish = finish

    def collect(self, flight: Flight, result: StepResult) -> None:
        """Take in a step. Rows whose request ended meanwhile are skipped."""
        slots = self._state.slots
        for row, message in result.errors.items():
            request = slots.requests[flight.slots[row]]
            if request is not None:
                status = 400 if row in result.refused else 500
                self._finish(request, finish_reason="error", message=message, status=status)
        if flight.chunks:
            self._chunks(flight, result)
        if len(flight.sampled):
            self._tokens(flight, result)

    def _chunks(self, flight: Flight, result: StepResult) -> None:
        state = self._state
        for chunk in flight.chunks:
            request = chunk.request
            if request.slot < 0 or state.slots.requests[request.slot] is not request:
                continue
            state.holdings.commit(request, chunk.start + chunk.count)
            prompt_logprobs = result.prompt_logprobs.get(chunk.row)
            if prompt_logprobs is not None:
                add_prompt_logprobs(request, chunk.start, prompt_logprobs)
            if not chunk.last:
                state.sharing.publish(request)
                continue
            state.sharing.withdraw(request)
            if request.message.embed:
                vector = result.embeddings.get(chunk.row)
                if vector is None:
                    self._finish(request, finish_reason="error", message="this model gives no embeddings", status=400)
                else:
                    self._finish(request, finish_reason="stop", embedding=vector.astype(np.float32).tolist())
            elif state.slots.out_limit[request.slot] == len(request.output_ids):
                self._finish(request, finish_reason="length")

    def _tokens(self, flight: Flight, result: StepResult) -> None:
        slots = self._state.slots
        rows = flight.sampled
        at = flight.slots[rows]
        alive = slots.live[at]
        if not alive.all():
            rows, at = rows[alive], at[alive]
        tokens = result.tokens[rows]
        slots.pending_step[at[slots.pending_step[at] == flight.step_id]] = -1
        slots.last_token[at] = tokens
        known = slots.out_known[at] + 1
        slots.out_known[at] = known
        unsent = slots.unsent[at] + 1
        over = known >= slots.out_limit[at]
        stopped = (slots.stop_ids[at] == tokens[:, None]).any(axis=1) & (known > slots.out_floor[at])
        special = over | stopped | slots.custom[at] | (known == 1)
        emit = special | (unsent >= slots.interval[at])
        slots.unsent[at] = np.where(emit, 0, unsent)
        self._state.counters.generated_tokens += len(at)
        requests, append = slots.requests, self._outputs.append
        if special.any():
            columns = (rows, at, tokens, unsent, emit, special, stopped, over)
            for row, slot, token, count, now, odd, stop, full in zip(*(c.tolist() for c in columns), strict=True):
                request: Any = requests[slot]
                request.output_ids.append(token)
                if odd:
                    self._special(request, row, token, count, stop, full, result)
                elif now:
                    append(Output(rid=request.message.rid, token_ids=request.output_ids[-count:]))
        elif emit.all() and int(unsent.max(initial=0)) == 1:
            for slot, token in zip(at.tolist(), tokens.tolist(), strict=True):
                request = requests[slot]
                request.output_ids.append(token)
                append(Output(rid=request.message.rid, token_ids=[token]))
        else:
            for slot, token, count, now in zip(
                at.tolist(), tokens.tolist(), unsent.tolist(), emit.tolist(), strict=True
            ):
                request = requests[slot]
                request.output_ids.append(token)
                if now:
                    append(Output(rid=request.message.rid, token_ids=request.output_ids[-count:]))

    def _special(
        self, request: Request, row: int, token: int, unsent: int, stopped: bool, over: bool, result: StepResult
    ) -> None:
        """A token that is its request's first or last, or has logprobs or a constraint to account for."""
        slots, slot = self._state.slots, request.slot
        slots.unsent[slot] = unsent
        logprobs = result.logprobs.get(row)
        if logprobs is not None:
            add_logprobs(request, logprobs)
        failure, status, complete, first = "", 500, False, len(request.output_ids) == 1
        if request.constraint is not None and not stopped:
            if request.constraint.advance(token, request.output_ids):
                if request.jumps and not over:
                    unsent += self._jump(request)
                    over = slots.out_known[slot] >= slots.out_limit[slot]
                    slots.unsent[slot] = unsent
                complete = request.constraint.finished()
                if request.constraint.spent:
                    request.constraint = None
                    slots.constrained[slot], slots.custom[slot] = False, request.message.logprobs.output
            else:
                refusal = request.constraint.refusal
                failure, status = refusal or f"the output constraint failed at token {token}", 400 if refusal else 500
        if failure:
            self._finish(request, finish_reason="error", message=failure, status=status)
        elif stopped:
            self._finish(request, finish_reason="stop", matched=token)
        elif complete:
            self._finish(request, finish_reason="stop")
        elif over:
            self._finish(request, finish_reason="length")
        elif first or unsent >= slots.interval[slot]:
            if first or request.logprobs is not None:
                self._outputs.append(make_output(request, unsent, first=first))
            else:
                self._outputs.append(Output(rid=request.message.rid, token_ids=request.output_ids[-unsent:]))
            slots.unsent[slot] = 0

    def _jump(self, request: Request) -> int:
        """Append the tokens that the constraint forces from here on, and leave them to be computed with the next step; gives how many.

        No step of this request is under way, for its next mask waits for its last token.
        """
        state, slots, slot = self._state, self._state.slots, request.slot
        assert request.constraint is not None
        beside = int(np.count_nonzero(slots.decoding))
        if beside >= _CROWD:
            return 0
        most = int(slots.out_limit[slot] - slots.out_known[slot])
        forced = request.constraint.jump(beside // _SHARE, most, slots.stop_ids[slot].tolist())
        if not forced:
            return 0
        computed = len(request.prompt) + len(request.output_ids) - 1
        request.output_ids.extend(forced)
        request.tokens, request.committed = request.all_tokens(), computed
        slots.out_known[slot] += len(forced)
        slots.out_planned[slot] = slots.out_known[slot]
        slots.decoding[slot] = False
        state.jumping.append(request)
        state.counters.jumped_tokens += len(forced)
        state.counters.generated_tokens += len(forced)
        return len(forced)
