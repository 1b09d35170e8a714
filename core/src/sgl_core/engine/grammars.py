"""Constraints of waiting requests: compiled in threads off the step loop, once per content, within a time limit."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from sgl_core.api.grammar import CompiledGrammar, GrammarBackend, GrammarError, Vocabulary
from sgl_core.api.sampling import GrammarRequest

from .grammar_state import Constraint, ReasoningEnd
from .request import Request
from .thinking import Excluded, Unbound

log = logging.getLogger(__name__)

_Key = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class GrammarTools:
    """What constraints need: the backend (None: there is none), where reasoning ends (None: this model has no reasoning block), and what
    must not come before that."""

    backend: GrammarBackend | None
    reasoning_end: ReasoningEnd | None = None
    excluded: Excluded | None = None


class Grammars:
    """``make`` runs in a compile thread at the first constrained request; None refuses every constraint."""

    def __init__(
        self,
        make: Callable[[], GrammarTools] | None,
        *,
        timeout: float,
        cache_size: int,
        clock: Callable[[], float] = time.monotonic,
        threads: int = 2,
    ) -> None:
        self._make = make
        self._timeout = timeout
        self._cache_size = cache_size
        self._clock = clock
        self._pool = ThreadPoolExecutor(threads, "sgl-grammar")
        self._tools: Future[GrammarTools] | None = None
        self._compiled: OrderedDict[_Key, Future[CompiledGrammar]] = OrderedDict()
        self._waiting: dict[int, tuple[Request, Future[CompiledGrammar], float]] = {}

    def __len__(self) -> int:
        """Requests whose constraint is not compiled yet."""
        return len(self._waiting)

    def requests(self) -> list[Request]:
        return [request for request, _, _ in self._waiting.values()]

    def begin(self, request: Request, grammar: GrammarRequest) -> str:
        """Start compiling. Returns why the constraint is refused at once, or an empty string."""
        if self._make is None:
            return "this server has no grammar backend: start it with --grammar-backend, or send no output constraint"
        key = (grammar.kind, grammar.text, grammar.strict)
        future = self._compiled.get(key)
        if future is None:
            if self._tools is None or (self._tools.done() and self._tools.exception() is not None):
                self._tools = self._pool.submit(self._make)
            future = self._pool.submit(_compile, self._tools, grammar)
            self._compiled[key] = future
            self._trim()
        else:
            self._compiled.move_to_end(key)
        self._waiting[request.seq] = (request, future, self._clock() + self._timeout)
        return ""

    def discard(self, request: Request) -> None:
        """Forget a request that ended while it waited."""
        self._waiting.pop(request.seq, None)

    def ready(self) -> list[tuple[Request, str]]:
        """Requests that need not wait any longer, each with its constraint set, or with why it is refused."""
        now = self._clock()
        out: list[tuple[Request, str]] = []
        for request, future, deadline in list(self._waiting.values()):
            if future.done():
                out.append((request, self._attach(request, future)))
            elif now >= deadline:
                out.append((request, f"the output constraint took more than {self._timeout:g} s to compile"))
            else:
                continue
            del self._waiting[request.seq]
        return out

    def close(self) -> None:
        """Stop the threads without waiting for a compile that hangs."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _attach(self, request: Request, future: Future[CompiledGrammar]) -> str:
        grammar = request.message.grammar
        assert grammar is not None
        try:
            matcher = future.result().matcher()
        except GrammarError as error:
            return f"{error} (at {error.pointer})" if error.pointer else str(error)
        except Exception:
            self._compiled.pop((grammar.kind, grammar.text, grammar.strict), None)
            log.exception("compiling a %s constraint failed", grammar.kind)
            return f"the {grammar.kind} constraint could not be compiled"
        assert self._tools is not None
        tools = self._tools.result()
        end = tools.reasoning_end if grammar.after_reasoning or grammar.may_reason else None
        excluded = tools.excluded if end is not None else None
        if end is not None and grammar.may_reason:
            request.constraint = Constraint(matcher, end, opening=end.begin, excluded=excluded)
        else:
            request.constraint = Constraint(matcher, end, active=end is None, excluded=excluded)
        return ""

    def _trim(self) -> None:
        """Keep the most recently used; one that is still compiling stays."""
        for key in list(self._compiled):
            if len(self._compiled) <= self._cache_size:
                return
            if self._compiled[key].done():
                del self._compiled[key]


def no_backend(vocabulary: Vocabulary) -> GrammarBackend:
    """The entry ``none``: a scheduler that has it never makes a backend. Raises :class:`GrammarError`."""
    raise GrammarError("this server was started with --grammar-backend none")


def _compile(tools: Future[GrammarTools], grammar: GrammarRequest) -> CompiledGrammar:
    made = tools.result()
    if grammar.kind == "thinking":
        return Unbound()
    if made.backend is None:
        raise GrammarError("this server was started with --grammar-backend none")
    return made.backend.compile(grammar)
