"""The messages between the front and a worker: msgspec structs, msgpack on the wire (see process.py).

A tagged union in each direction, so that either side decodes with one decoder. Token ids travel as lists of ints.
"""

from __future__ import annotations

import time
from typing import Any, TypeAlias

import msgspec

from sgl_core.api.sampling import GrammarRequest, LogprobOptions, SamplingParams


class Generate(msgspec.Struct, tag="generate", kw_only=True, omit_defaults=True):
    """Front to worker: serve one request (one choice; ``n`` choices are n requests that share ``group``).

    ``input_ids`` is not empty and holds valid token ids, checked at the edge. ``embed`` asks for the pooled vector.
    ``cache_salt`` keeps requests of different salts from sharing cached pages. ``session`` names an open session.
    ``second_segment`` is where the second text of a pair begins (0: there is none), for encoders.
    """

    rid: str
    input_ids: list[int]
    sampling: SamplingParams
    logprobs: LogprobOptions = LogprobOptions()
    eos_token_ids: tuple[int, ...] = ()
    priority: int = 0
    stream_interval: int = 1
    embed: bool = False
    second_segment: int = 0
    grammar: GrammarRequest | None = None
    lora: str | None = None
    group: str | None = None
    cache_salt: str = ""
    session: str | None = None
    logit_processor: str | None = None
    arrival: float = 0.0
    """time.monotonic() of the front at arrival (processes of one machine share that clock)."""


class Abort(msgspec.Struct, tag="abort", kw_only=True):
    """Front to worker: end a request (or all). ``reason`` is ``abort``, or ``stop`` when the front matched a stop string."""

    rid: str = ""
    all: bool = False
    reason: str = "abort"


class Control(msgspec.Struct, tag="control", kw_only=True):
    """Front to worker: a rare operation that answers once. ``op``: flush_cache, stats, pause, continue, get_weight, ..."""

    id: int
    op: str
    args: dict[str, Any] = {}


class Shutdown(msgspec.Struct, tag="shutdown"):
    """Front to worker: finish nothing more, free everything and exit with status 0."""


ToWorker: TypeAlias = Generate | Abort | Control | Shutdown


class Logprobs(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Aligned with the ``token_ids`` of the message that carries it. Pairs are (token id, logprob)."""

    token_logprobs: list[float | None] = []
    top: list[list[tuple[int, float]]] = []
    wanted: list[list[tuple[int, float]]] = []


class Output(msgspec.Struct, kw_only=True, omit_defaults=True):
    """New tokens of one request and, when it ended, why.

    ``finish_reason``: ``stop`` (with ``matched`` = the token id), ``length``, ``abort``, ``error`` (with ``message``), or ``""`` while running.
    ``status`` is the HTTP status an error maps to: 400 for a request that cannot be served, 503 for a full queue, 500 for a failed step.
    A Generate whose rid is being served already is answered under that rid too (400), so whoever sends must not reuse one. The end-of-sequence token that ended a request is in ``token_ids``; the front
    does not print it unless ``no_stop_trim``. ``prompt_logprobs``, ``cached_tokens`` and ``queue_seconds`` (from arrival
    to the first admission) come with the first output.
    """

    rid: str
    token_ids: list[int] = []
    logprobs: Logprobs | None = None
    prompt_logprobs: Logprobs | None = None
    cached_tokens: int = 0
    queue_seconds: float = 0.0
    prompt_tokens: int = 0
    embedding: list[float] | None = None
    finish_reason: str = ""
    matched: int | None = None
    message: str = ""
    status: int = 0


class Outputs(msgspec.Struct, tag="outputs"):
    """Worker to front: everything one step produced, in one message. ``sent`` is time.monotonic() of the worker."""

    items: list[Output]
    sent: float = msgspec.field(default_factory=time.monotonic)


class ControlResult(msgspec.Struct, tag="control_result", kw_only=True):
    """Worker to front: the answer to a Control; ``error`` empty on success."""

    id: int
    value: Any = None
    error: str = ""
    status: int = 200


class Ready(msgspec.Struct, tag="ready", kw_only=True):
    """Worker to front: the model is loaded. ``capacity`` is the fields of :class:`sgl_core.api.worker.Capacity`."""

    capacity: dict[str, Any]


class Progress(msgspec.Struct, tag="progress", kw_only=True):
    """Worker to front: long work goes on (weights, graph capture)."""

    what: str
    done: int = 0
    total: int = 0


class Stats(msgspec.Struct, tag="stats", kw_only=True):
    """Worker to front, at most once a second and when it becomes idle: gauges and counters for metrics and health."""

    running: int = 0
    waiting: int = 0
    free_pages: int = 0
    cached_pages: int = 0
    used_pages: int = 0
    total_pages: int = 0
    retractions: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    jumped_tokens: int = 0
    cached_prompt_tokens: int = 0
    step_seconds: float = 0.0
    steps: int = 0


class Fatal(msgspec.Struct, tag="fatal", kw_only=True):
    """Worker to front: the worker ends because of this; ``traceback`` goes to the log, never to clients."""

    message: str
    traceback: str = ""


FromWorker: TypeAlias = Outputs | ControlResult | Ready | Progress | Stats | Fatal
