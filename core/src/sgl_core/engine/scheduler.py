"""The scheduler: takes requests in, starts steps, takes results in, ends each request exactly once.

Life of a request: ``add`` -> (constraint compiles) -> waiting queue -> admitted to a slot, prefill in chunks -> decode -> end.
A retracted request goes back to the queue with its output. The parts: admission, batching, collecting, retraction.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from sgl_core.api.worker import ModelWorker

from .admission import Admission, Refused
from .batching import Batcher
from .collecting import Collector
from .grammars import Grammars
from .messages import Abort, Generate, Output, Stats
from .outputs import make_output
from .request import DONE, QUEUED, Request
from .state import EngineState, Flight
from .step_trace import StepTrace

log = logging.getLogger(__name__)


class Scheduler:
    """Single-threaded. ``outputs`` collects what the owner sends on; the owner empties it after each turn."""

    def __init__(
        self,
        state: EngineState,
        worker: ModelWorker,
        grammars: Grammars,
        priority_sign: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state = state
        self.outputs: list[Output] = []
        self.paused = False
        self.trace: StepTrace | None = None
        """Steps are recorded while there is one."""
        self._worker = worker
        self._late_masks = bool(getattr(worker, "late_masks", False))
        self._overlap = getattr(worker, "overlaps", True) and not state.limits.disable_overlap_schedule
        self._grammars = grammars
        self._clock = clock
        self._sign = priority_sign
        self._requests: dict[str, Request] = {}
        self._failures = 0
        self._admission = Admission(state)
        self._batcher = Batcher(state, self._admission, self.settle, self._out_of_pages, self._give_up, priority_sign)
        self._collector = Collector(state, self.outputs, self.finish)

    # -- requests in

    def add(self, message: Generate) -> None:
        """Queue a request, or answer at once why not."""
        if message.rid in self._requests:
            self._refuse(message, f"a request with the id {message.rid!r} is already being served", 400)
            return
        try:
            request = self._admission.accept(message, self.waiting_count)
        except Refused as refusal:
            if refusal.status != 503 or not self._make_place(message):
                self._refuse(message, str(refusal), refusal.status)
                return
            request = self._admission.accept(message, self.waiting_count)
        if message.grammar is not None:
            why = self._grammars.begin(request, message.grammar)
            if why:
                self._refuse(message, why, 400)
                return
        self._requests[message.rid] = request
        self.state.gathering.came(self._clock())
        if message.group:
            self.state.groups.setdefault(message.group, [-1, 0])[1] += 1
        if message.grammar is None:
            self.state.queue.push(request)

    def abort(self, message: Abort) -> None:
        """End one request, or all. One that is not here any more is no error."""
        named = list(self._requests.values()) if message.all else [self._requests.get(message.rid)]
        for request in named:
            if request is not None:
                self.finish(request, finish_reason=message.reason)

    # -- steps

    @property
    def waiting_count(self) -> int:
        return len(self.state.queue) + len(self._grammars)

    @property
    def busy(self) -> bool:
        """Whether a turn could do something now."""
        return bool(self.state.flights) or (
            not self.paused and (len(self.state.queue) > 0 or bool(self.state.slots.live.any()))
        )

    @property
    def hold(self) -> float:
        """Seconds for which the waiting requests wait for more before anything is started; 0 while requests run."""
        state = self.state
        if not len(state.queue) or state.slots.live.any():
            return 0.0
        return state.gathering.left(self._clock())

    @property
    def compiling(self) -> bool:
        """Whether constraints are being compiled, which ends without any message."""
        return len(self._grammars) > 0

    def turn(self) -> bool:
        """Start the next step if there is one and take in what is done. False when there was nothing to do."""
        began = self._clock()
        moved = self._turn()
        if moved:
            self.state.counters.step_seconds += self._clock() - began
        return moved

    def _turn(self) -> bool:
        state = self.state
        if len(self._grammars):
            self._take_compiled()
        if state.flights and (not self._overlap or self._needs_tokens()):
            self.settle()
        started = self._submit() if not (self.paused or self.hold) else False
        while state.flights:
            flight = state.flights[0]
            if self._overlap and started and len(state.flights) < 2 and not (flight.step is None or flight.step.done()):
                break
            self._take(state.flights.popleft())
            if not started:
                return True
        return started

    def settle(self) -> None:
        """Take in every step under way."""
        while self.state.flights:
            self._take(self.state.flights.popleft())

    def _submit(self) -> bool:
        state = self.state
        began = self._clock()
        built = self._batcher.build()
        if built is None:
            return False
        batch, flight = built
        late = threading.Event() if batch.masks is not None and self._late_masks else None
        if late is None:
            self._batcher.fill_masks(batch)
        batch.masks_ready = late
        try:
            flight.built, flight.submitted = began, self._clock()
            flight.began = flight.submitted
            flight.step = self._worker.submit(batch)
        except Exception as error:
            self._step_failed(flight, error)
            return True
        if late is not None:  # while the model runs
            self._batcher.fill_masks(batch)
            late.set()
        state.flights.append(flight)
        return True

    def _take(self, flight: Flight) -> None:
        try:
            assert flight.step is not None
            result = flight.step.result()
        except Exception as error:
            self._step_failed(flight, error)
            return
        self._failures = 0
        ended = self._learn(flight)
        self._step_over(flight)
        self._collector.collect(flight, result)
        if self.trace is not None:
            self.trace.step(flight, ended, self._clock())
            if self.trace.full:
                self.stop_trace()

    def _learn(self, flight: Flight) -> float:
        """What the step took; the one that waited behind it starts now. Gives the time."""
        now = self._clock()
        if flight.chunks:
            self.state.pace.note(sum(chunk.count for chunk in flight.chunks), now - flight.began)
        if flight.delays and flight.step_id == self.state.last_step:
            self.state.pace.delayed(now - flight.began)
        for waiting in self.state.flights:
            waiting.began = now
        return now

    def _step_over(self, flight: Flight) -> None:
        state = self.state
        state.done_step = flight.step_id
        state.slots.step_done(flight.step_id)
        state.counters.steps += 1

    def _step_failed(self, flight: Flight, error: Exception) -> None:
        """End the requests of a step that raised. A dead worker, or the third failure in a row, is raised on."""
        log.error("step %d failed", flight.step_id, exc_info=error)
        self._step_over(flight)
        for slot in flight.slots.tolist():
            request = self.state.slots.requests[slot]
            if request is not None:
                self.finish(request, trust=False, finish_reason="error", message="the model step failed", status=500)
        self._failures += 1
        if getattr(error, "worker_died", False) or self._failures >= 3:
            raise error

    def _needs_tokens(self) -> bool:
        """Whether the next masks depend on tokens that are not known yet."""
        slots = self.state.slots
        return bool((slots.constrained & (slots.pending_step >= 0)).any())

    def _take_compiled(self) -> None:
        for request, why in self._grammars.ready():
            if why:
                self.finish(request, finish_reason="error", message=why, status=400)
            else:
                self.state.queue.push(request)

    # -- ends

    def finish(self, request: Request, *, trust: bool = True, **end: Any) -> None:
        """End a request: free what it holds and send its last output. ``trust`` false keeps its pages out of the cache."""
        if request.state == DONE:
            return
        slots, unsent, first = self.state.slots, 0, not request.output_ids
        if request.slot >= 0:
            unsent = int(slots.unsent[request.slot])
            first = first or unsent == len(request.output_ids)
            self._release(request, trust)
        elif request.state == QUEUED:
            self.state.queue.remove(request)
            self._grammars.discard(request)
        if end.get("finish_reason") in ("stop", "length"):
            self.state.gathering.ended(self._clock())
        request.state = DONE
        del self._requests[request.rid]
        self._leave_group(request)
        self.outputs.append(make_output(request, unsent, first, **end))

    def _release(self, request: Request, trust: bool) -> None:
        state, slot = self.state, request.slot
        state.sharing.withdraw(request)
        for under_way in (state.prefilling, state.jumping):
            if request in under_way:
                under_way.remove(request)
        tokens = request.all_tokens()
        grown = len(tokens) > len(request.tokens)
        computed = len(tokens) - 1 if grown else request.committed
        state.holdings.close(request, tokens, computed if trust else 0)
        state.slots.release(slot, state.last_step, state.done_step)
        request.slot = -1

    def _give_up(self, request: Request) -> None:
        """Free what a retracted request holds; its tokens so far go out first."""
        unsent = int(self.state.slots.unsent[request.slot])
        if unsent:
            self.outputs.append(make_output(request, unsent, first=unsent == len(request.output_ids)))
        self._release(request, trust=True)

    def _out_of_pages(self, request: Request) -> None:
        self.finish(request, finish_reason="length", message="the KV cache is full with this request alone")

    def _refuse(self, message: Generate, why: str, status: int) -> None:
        self.outputs.append(
            Output(
                rid=message.rid,
                prompt_tokens=len(message.input_ids),
                finish_reason="error",
                message=why,
                status=status,
            )
        )

    def _make_place(self, message: Generate) -> bool:
        """In a full queue a more important request takes the place of the least important one."""
        last = self.state.queue.least_important() if self._sign else None
        if last is None or self._sign * message.priority >= self._sign * last.priority:
            return False
        self.finish(
            last, finish_reason="error", message="displaced from the full queue by a more important request", status=503
        )
        return True

    def _leave_group(self, request: Request) -> None:
        group = self.state.groups.get(request.message.group or "")
        if group is not None:
            group[1] -= 1
            if group[1] == 0:
                del self.state.groups[request.message.group or ""]

    # -- rare operations

    def flush_cache(self) -> bool:
        """Forget every cached prefix; false while requests are being served."""
        if self._requests:
            return False
        self.settle()
        self.state.holdings.cache.reset()
        return True

    def pause(self, mode: str) -> None:
        """Start no more steps. ``in_place`` keeps running requests where they are, ``retract`` gives their pages back, ``abort`` ends
        everything. Raises ValueError for another mode."""
        if mode not in ("in_place", "retract", "abort"):
            raise ValueError(f"pause: mode must be in_place, retract or abort, not {mode!r}")
        self.settle()
        if mode == "abort":
            self.abort(Abort(all=True))
        elif mode == "retract":
            for request in self.state.running():
                self._batcher.retract(request)
        self.paused = True

    def fail_all(self, why: str) -> None:
        """End every request with an error."""
        self.settle()
        for request in list(self._requests.values()):
            self.finish(request, finish_reason="error", message=why, status=500)

    def stats(self) -> Stats:
        """Gauges now, counters since the start."""
        state = self.state
        counters, holdings = state.counters, state.holdings
        cached, free = holdings.cache.cached, holdings.allocator.free_count
        return Stats(
            running=state.running_count(),
            waiting=self.waiting_count,
            free_pages=free,
            cached_pages=cached,
            used_pages=state.capacity.num_pages - free - cached,
            total_pages=state.capacity.num_pages,
            retractions=counters.retractions,
            prompt_tokens=counters.prompt_tokens,
            generated_tokens=counters.generated_tokens,
            jumped_tokens=counters.jumped_tokens,
            cached_prompt_tokens=counters.cached_prompt_tokens,
            step_seconds=counters.step_seconds,
            steps=counters.steps,
        )

    def stop_trace(self) -> str:
        """End the recording of steps and write it; gives the file. Raises ValueError where nothing is recorded."""
        if self.trace is None:
            raise ValueError(
                "no profile is being recorded: send /start_profile first (one of num_steps ends by itself)"
            )
        path, self.trace = self.trace.write(), None
        log.info("the profile is in %s", path)
        return str(path)

    def close(self) -> None:
        """Stop the compile threads."""
        self._grammars.close()
