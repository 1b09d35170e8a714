"""Sessions of the native API: the turns of a conversation kept as token ids, so that a request sends only what is new.

The front keeps them; the engine sees whole prompts, whose beginning its prefix cache holds.
"""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sgl_core.serve.core.answer import Answer
from sgl_core.serve.core.errors import RequestError, refuse
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.validate import check_integer, shown
from sgl_core.serve.openai.fields import ApiModel

from .generate import GenerateStream, Generation
from .protocol import GenerateRequest

MAX_SESSIONS = 4096
MAX_TURNS = 256
"""Turns of one session that can be continued; older ones are forgotten."""


class OpenBody(ApiModel):
    """``capacity_of_str_len`` bounds a session's context, in tokens. ``timeout`` closes one that is not used, in seconds."""

    capacity_of_str_len: int
    session_id: str | None = None
    timeout: float | None = None


class CloseBody(ApiModel):
    """Which session."""

    session_id: str


class SessionParams(ApiModel):
    """Which turn a request continues: ``rid``'s, or the latest. ``offset`` keeps so many of its tokens (unset, 0, -1: all).

    ``replace`` forgets the turns after it (all turns where there is no ``rid``); ``drop_previous_output`` its answer.
    """

    id: str
    rid: str | None = None
    offset: int | None = None
    replace: bool | None = None
    drop_previous_output: bool | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One request and its answer. ``parent`` is the request id of the turn before."""

    prompt: list[int]
    output: list[int]
    parent: str | None


@dataclass(slots=True)
class Session:
    """One conversation, or a tree of them."""

    capacity: int
    timeout: float | None
    used: float = 0.0
    turns: OrderedDict[str, Turn] = field(default_factory=OrderedDict)


class Sessions:
    """The open sessions of a server."""

    def __init__(self) -> None:
        self._open: dict[str, Session] = {}

    def open(self, body: OpenBody) -> str:
        """Open a session; its id. Raises RequestError for an id in use, and where too many are open."""
        now = time.monotonic()
        for key in [key for key, session in self._open.items() if _expired(session, now)]:
            del self._open[key]
        check_integer(body.capacity_of_str_len, "capacity_of_str_len", 1)
        if len(self._open) >= MAX_SESSIONS:
            raise RequestError(f"{MAX_SESSIONS} sessions are open; close some", status=429, code="too_many_sessions")
        key = body.session_id or uuid.uuid4().hex
        if key in self._open:
            raise refuse("session_id", f"session {key!r} is open already")
        self._open[key] = Session(body.capacity_of_str_len, body.timeout, now)
        return key

    def close(self, key: str) -> None:
        """Close a session. Raises RequestError (400) where there is none."""
        self._find(key, "session_id")
        del self._open[key]

    def _find(self, key: str, field_name: str) -> Session:
        session = self._open.get(key)
        now = time.monotonic()
        if session is None or _expired(session, now):
            self._open.pop(key, None)
            raise RequestError(f"{field_name}: there is no open session {key!r}", param=field_name, code="no_session")
        session.used = now
        return session

    async def extend(self, body: GenerateRequest, params: SessionParams, service: Service) -> str | None:
        """Put the context in front of the request's prompt, in place; the parent turn's id. Raises RequestError."""
        session = self._find(params.id, "session_params.id")
        if params.replace and params.rid is None:
            session.turns.clear()
        parent = params.rid or next(reversed(session.turns), None)
        context = self._context(session, parent, params)
        ids = await self._new_ids(body, service, bool(context))
        if len(context) + len(ids) > session.capacity:
            raise refuse("session_params.id", f"the session's capacity of {session.capacity} tokens is used up")
        body.text, body.input_ids = None, [*context, *ids]
        return parent

    def _context(self, session: Session, parent: str | None, params: SessionParams) -> list[int]:
        if parent is None:
            return []
        turn = session.turns.get(parent)
        if turn is None:
            raise refuse("session_params.rid", f"request {parent!r} is no finished turn of this session")
        if params.replace:
            _forget_children(session, parent)
        context = turn.prompt if params.drop_previous_output else [*turn.prompt, *turn.output]
        if params.offset in (None, 0, -1):
            return context
        return context[: check_integer(params.offset, "session_params.offset", -1)]

    @staticmethod
    async def _new_ids(body: GenerateRequest, service: Service, continues: bool) -> list[int]:
        """The request's own tokens; without the beginning-of-sequence token where it goes on."""
        if (body.text is None) == (body.input_ids is None):
            raise refuse("text", "give either text or input_ids")
        if body.input_ids is not None:
            ids = body.input_ids
            if not isinstance(ids, list) or not all(type(token) is int for token in ids):
                raise refuse("input_ids", "a session takes one list of token ids at a time")
        else:
            if not isinstance(body.text, str):
                raise refuse("text", f"a session takes one text at a time, not {shown(body.text)}")
            ids = (await service.encoder.prompt(body.text, "text")).ids if body.text.strip() else []
        if not ids:
            raise refuse("text" if body.input_ids is None else "input_ids", "the prompt is empty or only white space")
        return ids[1:] if continues and ids[0] == service.tokenizer.bos_token_id and len(ids) > 1 else list(ids)

    def record(self, key: str, job: Generation, answers: list[Answer], parent: str | None) -> None:
        """Keep a finished turn, if the session is still open."""
        session = self._open.get(key)
        request = job.requests[0]
        if session is None or request.rid is None:
            return
        session.turns[request.rid] = Turn(request.input_ids, list(answers[0].token_ids), parent)
        while len(session.turns) > MAX_TURNS:
            session.turns.popitem(last=False)


def _expired(session: Session, now: float) -> bool:
    return session.timeout is not None and now - session.used > session.timeout


def _forget_children(session: Session, parent: str) -> None:
    forgotten = {parent}
    for key, turn in list(session.turns.items()):
        if turn.parent in forgotten:
            forgotten.add(key)
            del session.turns[key]


def session_params(body: GenerateRequest) -> Mapping[str, Any] | None:
    """``session_params`` of a body, where it has them."""
    given = body.session_params
    if given is not None and not isinstance(given, Mapping):
        raise refuse("session_params", f"must be an object, not {shown(given)}")
    return given


class SessionStream(GenerateStream):
    """A native stream whose turn is kept at its end."""

    def __init__(self, job: Generation, sessions: Sessions, key: str, parent: str | None) -> None:
        super().__init__(job)
        self._keep = (sessions, key, parent)

    def end(self) -> bytes:
        sessions, key, parent = self._keep
        sessions.record(key, self._job, self._answers, parent)
        return super().end()
