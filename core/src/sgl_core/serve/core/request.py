"""TextRequest, the internal form every API translates to, and ModelCard, what the front knows of the model it serves."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sgl_core.api.parsers import ParseContext, ReasoningParserFactory, ToolParserFactory
from sgl_core.api.sampling import GrammarRequest, LogprobOptions, SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """The served model as requests are checked against it. Sizes in tokens.

    ``defaults`` are sampling values for what a request leaves unset, by internal name. ``grammar_kinds`` are the constraints the
    configured grammar backend serves (empty: none). ``context_length`` 0 means not known yet.
    """

    name: str
    path: str = ""
    context_length: int = 0
    vocab_size: int = 0
    eos_token_ids: tuple[int, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    grammar_kinds: frozenset[str] = frozenset()
    grammar_backend: str = "none"
    embeds: bool = False
    generates: bool = True
    labels: tuple[str, ...] = ()
    """The classes of a model with a classification head; empty: it has none."""
    logit_processors: Mapping[str, str] = field(default_factory=dict)
    """Installed logit processors by name and alias."""
    serialized_processors: bool = False
    """Whether requests may bring logit processors of their own, which is code that the worker runs."""
    raw_scores: bool = False
    """Whether the one value of a reranker is its score as it stands (else: through the logistic function)."""
    auto_truncate: bool = False
    stream_interval: int = 1
    architectures: tuple[str, ...] = ()
    model_type: str = ""
    weight_version: str = "default"
    include_usage: bool = False
    """Whether streams end with usage although the request does not ask."""
    created: int = field(default_factory=lambda: int(time.time()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseSettings:
    """How the text of one request is parsed after stop strings. Either factory may be absent."""

    context: ParseContext
    reasoning: ReasoningParserFactory | None = None
    tools: ToolParserFactory | None = None


@dataclass(slots=True, kw_only=True)
class TextRequest:
    """One prompt with ``n`` choices, checked: nothing in here can fail inside the engine.

    ``input_ids`` is not empty and holds ids below the vocabulary size; ``sampling.max_new_tokens`` is set. ``rid`` is the client's own id
    (None: ours). ``stream`` says that events are wanted as they come; else fewer, larger messages serve as well.
    """

    input_ids: list[int]
    sampling: SamplingParams = SamplingParams()
    n: int = 1
    logprobs: LogprobOptions = LogprobOptions()
    stream: bool = False
    stream_interval: int | None = None
    grammar: GrammarRequest | None = None
    parse: ParseSettings | None = None
    rid: str | None = None
    priority: int = 0
    cache_salt: str = ""
    lora: str | None = None
    logit_processor: str | None = None
    embed: bool = False
    second_segment: int = 0
    """Where the second text of a pair begins in ``input_ids``; 0: it is one text."""
    measured: bool = True
    """False keeps a request of our own (health probe) out of the metrics."""
