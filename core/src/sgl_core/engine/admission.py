"""Admission: which requests are taken at all, and which waiting ones get a slot and pages now."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import numpy as np

from sgl_core.api.worker import NewRequest

from .limits import UNLIMITED
from .messages import Generate
from .outputs import begin_prompt_logprobs
from .prefix_cache import Match
from .request import PREFILL, QUEUED, Request, end_ids
from .state import EngineState

_EXPECT_AT_MOST = 4096
"""Output tokens per request beyond which nothing is reserved: few requests use a large limit up."""
_FIRST_RATIO, _FLOOR, _DECAY_STEPS = 0.7, 0.14, 600


class Refused(Exception):
    """The request cannot be served; ``status`` is the HTTP status this maps to."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Admission:
    """Keeps room for the output that running requests are expected to make: a share of their limits that shrinks step by step
    and grows back when requests had to be retracted."""

    def __init__(self, state: EngineState) -> None:
        self._state = state
        self._start_ratio = min(1.0, _FIRST_RATIO * state.limits.schedule_conservativeness)
        self._ratio = self._start_ratio
        self._seq = 0
        self.short_of_pages = False
        """Whether the last round ended because the next request's pages were not to be had."""

    def accept(self, message: Generate, active: int) -> Request:
        """A request from its message, or :class:`Refused`. ``active`` is how many requests wait already."""
        state, sampling = self._state, message.sampling
        length, context = len(message.input_ids), state.capacity.context_length
        if length == 0:
            raise Refused("the prompt is empty: at least one token is needed")
        if min(message.input_ids) < 0 or max(message.input_ids) >= state.capacity.vocab_size:
            raise Refused(f"the prompt has token ids outside the vocabulary of {state.capacity.vocab_size}")
        samples = not message.embed and sampling.max_new_tokens != 0
        if length + samples > context:
            raise Refused(
                f"the prompt has {length} tokens{' and at least one is generated' if samples else ''}; "
                f"the context length is {context}"
            )
        pool = state.capacity.num_pages * state.capacity.page_size
        if length > pool:
            raise Refused(f"the prompt has {length} tokens; the KV cache of this server holds {pool}")
        if message.session is not None:
            raise Refused("sessions are not served")
        if (
            message.priority
            and state.limits.abort_on_priority_when_disabled
            and not state.limits.enable_priority_scheduling
        ):
            raise Refused(
                "priority is set, but priority scheduling is off: start the server with --enable-priority-scheduling"
            )
        if active >= state.limits.max_queued_requests:
            raise Refused(f"the queue is full ({active} requests wait); try again later", status=503)
        wanted = sampling.max_new_tokens
        self._seq += 1
        return Request(
            message=message,
            seq=self._seq,
            arrival=message.arrival,
            priority=message.priority,
            max_new_tokens=min(context - length, UNLIMITED if wanted is None else wanted),
            namespace=(message.lora or "", message.cache_salt),
            prompt=np.array(message.input_ids, dtype=np.int32),
            prompt_len=length,
        )

    def admit(self, budget: int, sole: bool, spare: int = 0) -> Iterator[tuple[Request, int]]:
        """Admit waiting requests while slots, pages and ``budget`` (tokens) last; yields each with how many tokens to compute (see
        :func:`portion`).

        ``sole`` says that no other row is in this step; then a prompt that must not be cut may exceed the budget.
        """
        state, limits = self._state, self._state.limits
        self.short_of_pages = False
        self._ratio = max(self._ratio - self._start_ratio * (1 - _FLOOR) / _DECAY_STEPS, self._start_ratio * _FLOOR)
        running = state.running_count()
        room = min(limits.max_running_requests - running, state.slots.free_count, limits.prefill_max_requests)
        if room <= 0 or budget <= 0 or not state.queue:
            return
        state.queue.rank(state.holdings.cache)
        reserved = self._reserved()
        put_off: list[Request] = []
        try:
            while room > 0 and budget > 0:
                request = state.queue.pop()
                if request is None:
                    break
                request.tokens = request.all_tokens()
                match = state.holdings.cache.match(request.tokens, request.namespace, request.match_limit)
                if state.sharing.worth_waiting(request, match):
                    put_off.append(request)
                    continue
                todo = len(request.tokens) - match.length
                count = portion(todo, budget, spare)
                if count < todo and limits.chunked_prefill_size >= UNLIMITED:
                    if not sole:
                        put_off.append(request)
                        break
                    count = todo
                pages = -(-len(request.tokens) // state.capacity.page_size) - len(match.pages)
                output = self._expected(request.max_new_tokens - len(request.output_ids))
                state.holdings.cache.lock(match.node)
                if running and pages + (reserved + output) / state.capacity.page_size > state.holdings.available:
                    state.holdings.cache.unlock(match.node)
                    put_off.append(request)
                    self.short_of_pages = True
                    break
                self._start(request, match)
                yield request, count
                reserved += output + (todo - count)
                running += 1
                room -= 1
                budget -= count
                sole = False
        finally:
            for request in put_off:
                state.queue.push(request)

    def retracted(self) -> None:
        """Somebody had to be retracted: expect more output from now on."""
        self._ratio = min(1.0, max(2 * self._ratio, self._start_ratio))

    def _start(self, request: Request, match: Match) -> None:
        state, message = self._state, request.message
        slots = state.slots
        slot = slots.take(request)
        slots.out_floor[slot] = message.sampling.min_new_tokens
        slots.interval[slot] = max(message.stream_interval, state.limits.stream_interval)
        slots.constrained[slot] = request.constraint is not None
        slots.custom[slot] = message.logprobs.output or request.constraint is not None
        slots.set_stop_ids(slot, end_ids(message))
        request.jumps = (
            request.constraint is not None
            and not message.logprobs.output
            and message.logit_processor is None
            and not state.limits.disable_jump_forward
        )
        state.holdings.start(request, match)
        state.holdings.cache.hit(match.node)
        request.state = PREFILL
        request.prompt_logprobs = begin_prompt_logprobs(request)
        request.awaits = None
        self._report_cached(request, match.length)
        state.prefilling.append(request)
        state.sharing.publish(request)
        state.newcomers.append(introduce(request))

    def _report_cached(self, request: Request, cached: int) -> None:
        """Note what the cache held of the prompt when the request, or the first of its group, was first admitted."""
        if request.reported_cached >= 0:
            return
        if request.arrival:
            request.queue_seconds = max(time.monotonic() - request.arrival, 0.0)
        group = self._state.groups.get(request.message.group or "")
        if group is not None:
            if group[0] < 0:
                group[0] = cached
            cached = min(cached, group[0])
        request.reported_cached = cached
        self._state.counters.prompt_tokens += request.prompt_len
        self._state.counters.cached_prompt_tokens += cached

    def _expected(self, remaining: int) -> float:
        return min(remaining, _EXPECT_AT_MOST) * self._ratio

    def _reserved(self) -> float:
        """Tokens that running requests are still expected to need."""
        slots = self._state.slots
        remaining = np.minimum(slots.out_limit - slots.out_planned, _EXPECT_AT_MOST)
        under_way = (*self._state.prefilling, *self._state.jumping)
        prompts = sum(len(request.tokens) - int(slots.lens[request.slot]) for request in under_way)
        return float(remaining[slots.live].sum()) * self._ratio + prompts


def portion(todo: int, budget: int, spare: int) -> int:
    """How many of a prompt's last ``todo`` tokens a step takes: all of them where that is at most ``spare`` above its budget."""
    return todo if todo <= budget + spare else budget


def introduce(request: Request) -> NewRequest:
    """What the worker must know of a request that has a slot, its output so far included."""
    message, logprobs = request.message, request.message.logprobs
    if request.output_ids and logprobs.prompt_start >= 0:  # they went out with the first output
        logprobs = msgspec.structs.replace(logprobs, prompt_start=-1)
    return NewRequest(
        slot=request.slot,
        rid=message.rid,
        prompt_ids=message.input_ids,
        output_ids=list(request.output_ids),
        sampling=message.sampling,
        logprobs=logprobs,
        eos_token_ids=tuple(end_ids(message)),
        embed=message.embed,
        second_segment=message.second_segment,
        lora=message.lora,
        logit_processor=message.logit_processor,
    )


def back_to_queue(state: EngineState, request: Request) -> None:
    """Put a request that gave its pages back among the waiting."""
    request.state = QUEUED
    request.slot = -1
    state.queue.push(request)
