"""The worker loop: messages in, turns of the scheduler, outputs out. It blocks while there is nothing to do."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from sgl_core.api.worker import Capacity, ModelWorker

from .messages import (
    Abort,
    Control,
    ControlResult,
    Fatal,
    FromWorker,
    Generate,
    Outputs,
    Ready,
    Shutdown,
    ToWorker,
)
from .scheduler import Scheduler
from .step_trace import StepTrace

log = logging.getLogger(__name__)

STATS_EVERY = 1.0
_COMPILE_POLL = 0.005
_STALLED_TURNS = 2000


class Inbox(Protocol):
    """Where messages come from."""

    def receive(self, timeout: float | None) -> list[ToWorker]:
        """Everything there is; waits up to ``timeout`` seconds (None: as long as it takes) for the first."""
        ...


class EngineLoop:
    """``send`` passes a message to the front. Runs until Shutdown or a fatal failure."""

    def __init__(
        self,
        scheduler: Scheduler,
        worker: ModelWorker,
        inbox: Inbox,
        send: Callable[[FromWorker], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._worker = worker
        self._inbox = inbox
        self._send = send
        self._clock = clock
        self._stopping = False
        self._stats_at = 0.0
        self._stats_owed = False
        self._idle_turns = 0
        self.last_turn = clock()
        """When the last turn began or ended (for the watchdog)."""

    @property
    def busy(self) -> bool:
        """Whether a turn is due or under way."""
        return self._scheduler.busy

    def announce(self, capacity: Capacity) -> None:
        """Tell the front that the model is loaded."""
        self._send(Ready(capacity={name: getattr(capacity, name) for name in capacity.__dataclass_fields__}))

    def run(self) -> None:
        """Serve until told to stop. A fatal failure is reported and raised."""
        try:
            while not self._stopping:
                for message in self._inbox.receive(self._patience()):
                    self._handle(message)
                self._turn()
        except Exception as error:
            self._flush()
            self._send(Fatal(message=f"{type(error).__name__}: {error}", traceback=traceback.format_exc()))
            raise
        finally:
            self._scheduler.close()
            self._worker.close()

    def _patience(self) -> float | None:
        """How long to wait for messages: not at all while there is work, else until one comes or more are waited for no longer."""
        if self._scheduler.busy:
            return min(self._scheduler.hold, _COMPILE_POLL) if self._scheduler.compiling else self._scheduler.hold
        if self._stats_owed:
            self._report()
        return _COMPILE_POLL if self._scheduler.compiling else None

    def _turn(self) -> None:
        if not (self._scheduler.busy or self._scheduler.compiling):
            self._flush()
            return
        self.last_turn = self._clock()
        moved = self._scheduler.turn()
        self.last_turn = self._clock()
        self._flush()
        self._stats_owed = True
        if self.last_turn - self._stats_at >= STATS_EVERY:
            self._report()
        if moved or not self._scheduler.busy or self._scheduler.hold:
            self._idle_turns = 0
        else:
            self._stalled()

    def _stalled(self) -> None:
        """Requests wait and nothing moves. That is a fault of ours: rather than spin for ever, fail them."""
        self._idle_turns += 1
        time.sleep(0.001)
        if self._idle_turns >= _STALLED_TURNS:
            log.error("the scheduler cannot place %d waiting requests", self._scheduler.waiting_count)
            self._scheduler.fail_all("the request could not be scheduled")
            self._flush()
            self._idle_turns = 0

    def _flush(self) -> None:
        outputs = self._scheduler.outputs
        if outputs:
            self._send(Outputs(list(outputs)))
            outputs.clear()

    def _report(self) -> None:
        self._stats_at = self._clock()
        self._stats_owed = self._scheduler.busy
        self._send(self._scheduler.stats())

    def _handle(self, message: ToWorker) -> None:
        if isinstance(message, Generate):
            self._scheduler.add(message)
        elif isinstance(message, Abort):
            self._scheduler.abort(message)
        elif isinstance(message, Control):
            self._flush()  # what happened before comes before the answer
            self._send(self._control(message))
        elif isinstance(message, Shutdown):
            self._stopping = True

    def _control(self, message: Control) -> ControlResult:
        try:
            value = self._operate(message.op, message.args)
        except KeyError:
            return ControlResult(id=message.id, error=f"this worker has no operation {message.op!r}", status=404)
        except (ValueError, TypeError) as error:
            return ControlResult(id=message.id, error=str(error), status=400)
        except Exception as error:
            log.exception("control operation %s failed", message.op)
            return ControlResult(id=message.id, error=f"{message.op} failed: {error}", status=500)
        return ControlResult(id=message.id, value=value)

    def _operate(self, op: str, args: dict[str, Any]) -> Any:
        scheduler = self._scheduler
        if op == "flush_cache":
            if not scheduler.flush_cache():
                raise ValueError("the cache is in use: requests are running or waiting")
            return True
        if op == "stats":
            return msgspec.to_builtins(scheduler.stats())
        if op == "internal_state":
            return {**msgspec.to_builtins(scheduler.stats()), "paused": scheduler.paused}
        if op == "pause":
            scheduler.pause(args.get("mode", "in_place"))
            self._flush()
            return True
        if op == "start_profile":
            if scheduler.trace is not None:
                raise ValueError("a profile is being recorded already: send /stop_profile first")
            scheduler.trace = StepTrace.from_request(args)
            return str(scheduler.trace.folder)
        if op == "stop_profile":
            return scheduler.stop_trace()
        if op == "log_level":
            logging.getLogger().setLevel(args["level"])
            return True
        if op == "continue":
            scheduler.paused = False
            return True
        scheduler.settle()
        self._flush()
        return self._worker.control(op, args)
