"""CallSink: collects the calls a parser recognises and holds a short one back until it is known to be well formed."""

from __future__ import annotations

from sgl_core.api.parsers import CallArguments, CallStart, ParseEvent

COMMIT_AFTER = 256
"""Characters of arguments after which a call is sent though it is not complete: long arguments stream, short ones are checked whole."""


class CallSink:
    """Turns begin / arguments / end into events appended to ``events``."""

    def __init__(self, events: list[ParseEvent]) -> None:
        self._events = events
        self._held: list[ParseEvent] = []
        self._size = 0
        self._open = False
        self._committed = False
        self.count = 0
        """Calls begun and not taken back."""

    def begin(self, name: str, call_id: str | None = None) -> None:
        """A call of ``name`` begins."""
        self._held = [CallStart(self.count, name, call_id)]
        self._size = 0
        self._open = True
        self._committed = False
        self.count += 1

    def arguments(self, text: str) -> None:
        """More text of the arguments object of the open call."""
        if not text:
            return
        self._held.append(CallArguments(self.count - 1, text))
        self._size += len(text)
        if self._size > COMMIT_AFTER:
            self._send()

    def end(self) -> None:
        """The open call is complete."""
        self._send()
        self._open = False

    def cancel(self) -> bool:
        """Take the open call back, if there is one; false when part of it was sent already."""
        if not self._open:
            return True
        self._open = False
        if self._committed:
            return False
        self._held = []
        self.count -= 1
        return True

    def _send(self) -> None:
        merged: list[ParseEvent] = []
        for event in self._held:
            last = merged[-1] if merged else None
            if isinstance(event, CallArguments) and isinstance(last, CallArguments):
                merged[-1] = CallArguments(last.index, last.text + event.text)
            else:
                merged.append(event)
        self._events += merged
        self._held = []
        self._committed = True
