"""Drives a scheduler over the null worker, turn by turn in the thread of a test, and checks its books after every turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sgl_core.api.sampling import SamplingParams
from sgl_core.api.worker import Step, StepBatch, StepResult
from sgl_core.engine.assembly import assemble
from sgl_core.engine.grammars import GrammarTools
from sgl_core.engine.limits import EngineLimits
from sgl_core.engine.messages import Abort, Generate, Output
from sgl_core.engine.null_worker import NullOptions, NullWorker, prefix_hash, token_of, weights
from sgl_core.engine.radix import Node, RadixCache

GREEDY = SamplingParams(temperature=0.0)


def oracle(
    prompt: Sequence[int],
    count: int,
    vocab_size: int,
    *,
    ends: Sequence[int] = (),
    seed: int | None = None,
    floor: int = 0,
) -> list[int]:
    """What the null worker answers to a request alone: ``count`` tokens, or fewer where one of ``ends`` comes after ``floor``."""
    total, position, out = prefix_hash(prompt), len(prompt), list[int]()
    while len(out) < count:
        salt = 0 if seed is None else seed * 1_000_003 + len(out) + 1
        token = int(token_of(total, vocab_size, salt)[0])
        while len(out) < floor and token in ends:
            token = (token + 1) % vocab_size
        out.append(token)
        if token in ends and len(out) > floor:
            break
        weight = int(weights(np.array([position]))[0])
        total, position = (total + (token + 1) * weight) % 2**64, position + 1
    return out


@dataclass(slots=True)
class Record:
    """Everything that came back for one request."""

    outputs: list[Output] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        return [token for output in self.outputs for token in output.token_ids]

    @property
    def ends(self) -> list[Output]:
        return [output for output in self.outputs if output.finish_reason]

    @property
    def end(self) -> Output:
        """The one last output."""
        (end,) = self.ends
        return end

    @property
    def cached(self) -> int:
        return self.outputs[0].cached_tokens


class LazyWorker(NullWorker):
    """A null worker that runs a step only when somebody asks for its result, so that steps overlap and masks come late."""

    late_masks = True
    overlaps = True

    def submit(self, batch: StepBatch) -> Step:
        return _Lazy(super().submit, batch)


class _Lazy:
    def __init__(self, run: Callable[[StepBatch], Step], batch: StepBatch) -> None:
        self._run = run
        self._batch = batch

    def done(self) -> bool:
        return False

    def result(self) -> StepResult:
        assert self._batch.masks_ready is None or self._batch.masks_ready.is_set()
        return self._run(self._batch).result()


class Driver:
    """One scheduler. ``records`` holds what each request got, by its id."""

    def __init__(
        self,
        options: NullOptions | None = None,
        limits: EngineLimits | None = None,
        *,
        worker: NullWorker | None = None,
        lazy: bool = False,
        make_grammar_tools: Callable[[], GrammarTools] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.options = options or NullOptions(check=True, num_pages=64, page_size=4, max_requests=8, vocab_size=1000)
        self.worker = worker or (LazyWorker if lazy else NullWorker)(self.options)
        self.steps: list[StepBatch] = []
        self.records: dict[str, Record] = {}
        submit = self.worker.submit

        def noted(batch: StepBatch) -> Step:
            self.steps.append(batch)
            return submit(batch)

        self.worker.submit = noted  # type: ignore[method-assign]
        capacity = self.worker.load(lambda what, done, total: None)
        extra: dict[str, Any] = {"clock": clock} if clock else {}
        self.scheduler = assemble(
            self.worker, capacity, limits or EngineLimits(), make_grammar_tools=make_grammar_tools, **extra
        )

    def add(self, rid: str, prompt: Sequence[int], sampling: SamplingParams | None = None, **fields: Any) -> None:
        message = Generate(rid=rid, input_ids=list(prompt), sampling=sampling or GREEDY, **fields)
        self.records.setdefault(rid, Record())
        self.scheduler.add(message)
        self._take_outputs()

    def abort(self, rid: str, reason: str = "abort") -> None:
        self.scheduler.abort(Abort(rid=rid, reason=reason))
        self._take_outputs()

    def turn(self) -> bool:
        moved = self.scheduler.turn()
        self._take_outputs()
        self.check()
        return moved

    def run(self, turns: int = 5000) -> None:
        """Until idle. Raises AssertionError when that takes more than ``turns``, not counting those in which the scheduler waits for more
        requests: the loop would sleep."""
        taken = 0
        while self.scheduler.busy and taken < turns:
            taken += not self.scheduler.hold
            self.turn()
        assert not self.scheduler.busy, "the scheduler does not come to rest"
        self.check()

    def generate(self, prompt: Sequence[int], sampling: SamplingParams | None = None, **fields: Any) -> Record:
        """Serve one more request to its end."""
        rid = fields.pop("rid", f"request-{len(self.records)}")
        self.add(rid, prompt, sampling, **fields)
        self.run()
        return self.records[rid]

    def check(self) -> None:
        """No page in two places; free, cached and owned pages are all; locks add up; nothing is held while idle."""
        holdings, slots = self.scheduler.state.holdings, self.scheduler.state.slots
        owned: list[int] = []
        locks: dict[int, int] = {}
        for request in self.scheduler.state.running():
            first = request.shared // slots.page_size
            owned.extend(slots.pages[request.slot, first : slots.page_count(request.slot)].tolist())
            node = request.node
            while isinstance(node, Node):
                locks[id(node)] = locks.get(id(node), 0) + 1
                node = node.parent
        cache = holdings.cache
        cached: list[int] = []
        if isinstance(cache, RadixCache):
            evictable = 0
            for node in cache.nodes():
                cached.extend(node.pages.tolist())
                assert node.locks == locks.get(id(node), 0), "a node is locked by nobody, or too often"
                assert len(node.tokens) == len(node.pages) * slots.page_size > 0
                evictable += 0 if node.locks else len(node.pages)
            assert (cache.cached, cache.evictable) == (len(cached), evictable)
        places = owned + cached
        assert len(set(places)) == len(places), "a page is in two places"
        assert sorted(places) == holdings.allocator.used_pages().tolist(), "a page is lost"
        if not self.scheduler.busy and not self.scheduler.paused:
            assert not owned, "idle, but pages are held"
            assert not slots.live.any()
            assert slots.free_count == slots.max_requests

    def _take_outputs(self) -> None:
        for output in self.scheduler.outputs:
            self.records.setdefault(output.rid, Record()).outputs.append(output)
        self.scheduler.outputs.clear()
