"""Front: the one owner of the channel to the worker. Starts runs, spreads outputs over them, aborts, drains, and knows the server's health."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol

import msgspec

from sgl_core.engine.messages import (
    Abort,
    Control,
    ControlResult,
    Fatal,
    FromWorker,
    Generate,
    Output,
    Outputs,
    Progress,
    Ready,
    Shutdown,
    Stats,
    ToWorker,
)

from .choice import Choice
from .detokenize import DetokenizerFactory
from .errors import RequestError
from .events import Event, Failed, Finished
from .observer import Observer
from .prompts import Encoder
from .request import ModelCard, TextRequest
from .run import Run
from .tokenizer import TextTokenizer
from .validate import check_generates

log = logging.getLogger("sgl.front")

State = Literal["loading", "ready", "draining", "dead"]
POLL_SECONDS = 0.25
"""How often the worker's life is looked at."""
LAZY_INTERVAL = 16
"""Tokens a message of a request that is not streamed."""


class Channel(Protocol):
    """The way to the worker; sgl_core.engine provides it to another process and inside this one."""

    def send(self, message: ToWorker) -> None: ...

    async def recv(self) -> FromWorker: ...

    def alive(self) -> bool: ...

    def close(self) -> None: ...


class Front:
    """Serves one model. Create it, ``await start()``, then :meth:`submit`. All methods run on one event loop."""

    def __init__(
        self,
        channel: Channel,
        tokenizer: TextTokenizer | None,
        card: ModelCard,
        *,
        observers: Sequence[Observer] = (),
        progress: Callable[[Progress], None] | None = None,
        hang_seconds: float = 300.0,
    ) -> None:
        self.channel = channel
        self.card = card
        self.observers = list(observers)
        self.stats = Stats()
        self.capacity: dict[str, Any] = {}
        self.state: State = "loading"
        self.why = "the model is loading"
        self.started_at = time.time()
        self.last_message = time.monotonic()
        self._hang_seconds = hang_seconds
        self._progress = progress
        self._choices: dict[str, tuple[Run, Choice]] = {}
        self._runs: dict[str, Run] = {}
        self._serial = itertools.count(1)
        self._controls: dict[int, asyncio.Future[Any]] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.set_tokenizer(tokenizer)

    def set_tokenizer(self, tokenizer: TextTokenizer | None) -> None:
        """The tokenizer, when it is loaded after the front was made."""
        self.tokenizer = tokenizer
        self.detokenizers = None if tokenizer is None else DetokenizerFactory(tokenizer)
        self.encoder = None if tokenizer is None else Encoder(tokenizer)

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to read from the worker."""
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._watch())]

    async def wait_ready(self) -> None:
        """Until the model is loaded. Raises RequestError (503) with the reason where the worker died instead."""
        while self.state == "loading":
            self._changed.clear()
            await self._changed.wait()
        if self.state == "dead":
            raise RequestError(self.why, status=503)

    async def drain(self, seconds: float) -> bool:
        """Refuse new requests and wait until those that run have ended; false where some had not after ``seconds``."""
        if self.state in ("loading", "ready"):
            self._become("draining", "the server is shutting down")
        deadline = time.monotonic() + seconds
        while self._runs and time.monotonic() < deadline and self.state != "dead":
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), min(1.0, max(deadline - time.monotonic(), 0.01)))
            except (TimeoutError, asyncio.TimeoutError):  # two classes before Python 3.11
                continue
        return not self._runs

    def end_runs(self) -> None:
        """End everything that runs; the clients are told that the server shuts down."""
        for run in list(self._runs.values()):
            self._fail(run, Failed("the server is shutting down", 503, "shutting_down"))

    async def close(self, patience: float = 0.0) -> None:
        """End the worker and everything that runs. Safe to call twice.

        The channel waits for the worker's end, and the event loop with it, unless the worker ends within ``patience`` seconds.
        """
        self.end_runs()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self.state != "dead":
            try:
                self.channel.send(Shutdown())
            except Exception as error:
                log.debug("the worker did not take the shutdown message: %s", error)
            self._become("dead", "the server is shut down")
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and self.channel.alive():  # noqa: ASYNC110 - a process's end, not ours to set
            await asyncio.sleep(0.01)
        self.channel.close()

    @property
    def running(self) -> int:
        """Choices under way, as the front knows them."""
        return len(self._choices)

    def unhealthy(self) -> str:
        """Why the server cannot serve now; empty when it can."""
        if self.state != "ready":
            return self.why
        silent = time.monotonic() - self.last_message
        if self._choices and silent > self._hang_seconds:
            return f"the worker has said nothing for {silent:.0f} s"
        return ""

    def _become(self, state: State, why: str = "") -> None:
        self.state, self.why = state, why
        self._changed.set()

    # -- requests -----------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raises RequestError (503) where new requests are not taken."""
        if self.state != "ready":
            code = {"loading": "loading", "draining": "shutting_down"}.get(self.state, "worker_dead")
            raise RequestError(f"the server cannot take requests: {self.why}", status=503, code=code)

    def submit(self, requests: Sequence[TextRequest]) -> Run:
        """Send requests to the worker as one run. Choices are numbered over all requests: those of the first come first.

        Raises RequestError: 503 where the server is not ready, 400 for a request id that is in use and for a model that writes no text.
        """
        self.check_open()
        if not all(request.embed for request in requests):
            check_generates(self.card)
        now = time.monotonic()
        serial = f"{next(self._serial):x}"
        rids = list(dict.fromkeys(request.rid for request in requests if request.rid)) or [uuid.uuid4().hex]
        for rid in rids:
            if rid in self._runs:
                raise RequestError(
                    f"rid: {rid!r} is the id of a request that still runs", param="rid", code="duplicate_rid"
                )
        choices: list[Choice] = []
        for request in requests:
            for _ in range(request.n):
                index = len(choices)
                choices.append(Choice(index, f"{serial}.{index}", request, self.detokenizers, now))
        run = Run(rids, choices, self._abort)
        self._runs.update(dict.fromkeys(rids, run))
        self._tell("started", run)
        rest = iter(choices)
        try:
            for number, request in enumerate(requests):
                group = f"{serial}.g{number}" if request.n > 1 else None
                for k in range(request.n):
                    self._send(run, next(rest), k, group)
        except BaseException:
            self._abort(run)
            raise
        return run

    def _send(self, run: Run, choice: Choice, k: int, group: str | None) -> None:
        request = choice.request
        self._choices[choice.rid] = (run, choice)
        if request.sampling.max_new_tokens == 0 and request.logprobs.prompt_start < 0 and not request.embed:
            # Nothing is to be computed: the prompt is the whole answer.
            choice.feed(Output(rid=choice.rid, finish_reason="length"), run.pending, choice.arrived)
            self._end(run, choice, run.pending[-1], choice.arrived)
            return
        self.channel.send(self._message(choice, request, k, group))

    def _message(self, choice: Choice, request: TextRequest, k: int, group: str | None) -> Generate:
        sampling = request.sampling
        if k and sampling.seed is not None:
            sampling = msgspec.structs.replace(sampling, seed=(sampling.seed + k) & (2**63 - 1))
        interval = request.stream_interval or self.card.stream_interval
        if not request.stream and not sampling.stop and not sampling.stop_regex:
            interval = max(interval, LAZY_INTERVAL)
        return Generate(
            rid=choice.rid,
            input_ids=request.input_ids,
            sampling=sampling,
            logprobs=request.logprobs,
            eos_token_ids=self.card.eos_token_ids,
            priority=request.priority,
            stream_interval=interval,
            embed=request.embed,
            second_segment=request.second_segment,
            grammar=request.grammar,
            lora=request.lora,
            logit_processor=request.logit_processor,
            group=group,
            cache_salt=request.cache_salt,
            arrival=choice.arrived,
        )

    def _abort(self, run: Run, why: Failed | None = None) -> None:
        """End a run that nobody waits for, or that failed: then observers are told ``why`` of each of its choices."""
        now = time.monotonic()
        run.open = 0
        for choice in run.choices:
            if self._choices.pop(choice.rid, None) is not None:
                choice.done = True
                if self.state != "dead":
                    self._send_abort(choice.rid, "abort")
                self._tell("finished", choice, why, now)
        self._forget(run)

    def abort(self, rid: str = "", *, everything: bool = False) -> int:
        """End runs by the client's id, or all; their clients get what there is, finish reason ``abort``. How many."""
        found = 0
        for key in list(self._runs) if everything else [rid] if rid in self._runs else []:
            found += 1
            for choice in self._runs[key].choices:
                if not choice.done and choice.request.rid in (key, None):
                    self._send_abort(choice.rid, "abort")
        return found

    def _send_abort(self, rid: str, reason: str) -> None:
        try:
            self.channel.send(Abort(rid=rid, reason=reason))
        except Exception as error:
            log.warning("the worker did not take an abort: %s", error)

    def _forget(self, run: Run) -> None:
        for rid in run.rids:
            if self._runs.get(rid) is run:
                del self._runs[rid]
        self._changed.set()

    async def control(self, op: str, timeout: float = 60.0, **args: Any) -> Any:
        """Ask the worker for a rare operation. Raises RequestError with the worker's reason and status."""
        if self.state == "dead":
            raise RequestError(self.why, status=503)
        number = next(self._serial)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._controls[number] = answer
        try:
            self.channel.send(Control(id=number, op=op, args=args))
            return await asyncio.wait_for(answer, timeout)
        except (TimeoutError, asyncio.TimeoutError):
            raise RequestError(f"the worker did not answer {op} within {timeout:g} s", status=504) from None
        finally:
            self._controls.pop(number, None)

    # -- the worker's messages ----------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while True:
                message = await self.channel.recv()
                self.last_message = time.monotonic()
                self._receive(message)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.exception("the channel to the worker failed")
            self._die(f"the worker ended ({type(error).__name__})")

    def _receive(self, message: FromWorker) -> None:
        if isinstance(message, Outputs):
            self._spread(message)
        elif isinstance(message, Stats):
            self.stats = message
            self._tell("stats", message)
        elif isinstance(message, ControlResult):
            self._resolve(message)
        elif isinstance(message, Ready):
            self.capacity = message.capacity
            self.card = card_with_capacity(self.card, message.capacity)
            self._tell("ready", message.capacity)
            if self.state == "loading":
                self._become("ready")
        elif isinstance(message, Progress):
            if self._progress is not None:
                self._progress(message)
        elif isinstance(message, Fatal):
            log.error("the worker ended: %s\n%s", message.message, message.traceback)
            self._die(f"the worker ended: {message.message}")

    def _spread(self, message: Outputs) -> None:
        now = self.last_message
        woken: list[Run] = []
        came: list[tuple[Choice, int]] = []
        for out in message.items:
            found = self._choices.get(out.rid)
            if found is None:
                continue  # aborted, or stopped by the front; the worker had not heard yet
            run, choice = found
            events = run.pending
            before = choice.tokens
            try:
                choice.feed(out, events, now)
            except RequestError as error:
                self._fail(run, Failed(error.message, error.status, error.code))
                continue
            except Exception:
                log.exception("request %s could not be served", run.rid)
                self._fail(run, Failed("internal error while this answer was read"))
                continue
            came.append((choice, choice.tokens - before))
            if choice.done:
                self._end(run, choice, events[-1], now)
            if events:
                woken.append(run)
        self._tell("outputs", came, now)
        for run in woken:
            run.wake()
        asyncio.get_running_loop().call_soon(self._delivered, message.sent)  # the takers that were woken run first

    def _delivered(self, sent: float) -> None:
        self._tell("delivered", time.monotonic() - sent)

    def _end(self, run: Run, choice: Choice, event: Event, now: float) -> None:
        del self._choices[choice.rid]
        if choice.stopped_here:
            self._send_abort(choice.rid, "stop")
        self._tell("finished", choice, event, now)
        if isinstance(event, Finished):
            run.open -= 1
            if run.open == 0:
                self._forget(run)
        else:
            run.pending.pop()
            self._fail(run, event)

    def _fail(self, run: Run, failed: Event) -> None:
        assert isinstance(failed, Failed)
        self._abort(run, failed)
        run.fail(failed)

    def _resolve(self, message: ControlResult) -> None:
        answer = self._controls.get(message.id)
        if answer is None or answer.done():
            return
        if message.error:
            status = message.status if message.status >= 400 else 500
            answer.set_exception(RequestError(message.error, status=status))
        else:
            answer.set_result(message.value)

    # -- death --------------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while self.state != "dead":
            if not self.channel.alive():
                # What the worker said last may still be on its way.
                await asyncio.sleep(POLL_SECONDS)
                self._die("the worker process ended")
                return
            await asyncio.sleep(POLL_SECONDS)

    def _die(self, why: str) -> None:
        """The worker is gone: tell everybody who waits."""
        if self.state == "dead":
            return
        self._tell("died", why)
        self._become("dead", why)
        for run in list(self._runs.values()):
            self._fail(run, Failed(f"{why}; the answer is lost", 503, "worker_dead"))
        for answer in self._controls.values():
            if not answer.done():
                answer.set_exception(RequestError(why, status=503))

    def _tell(self, what: str, *args: Any) -> None:
        for observer in self.observers:
            try:
                getattr(observer, what)(*args)
            except Exception:
                log.exception("an observer failed at %s", what)


def card_with_capacity(card: ModelCard, capacity: dict[str, Any]) -> ModelCard:
    """The card with the sizes that the loaded worker states, where the card has none or larger ones."""
    context, vocab = int(capacity.get("context_length") or 0), int(capacity.get("vocab_size") or 0)
    return replace(
        card,
        context_length=min(filter(None, (card.context_length, context)), default=0),
        vocab_size=card.vocab_size or vocab,
    )
