"""Service: everything a route needs, in one object: front, template, parsers, and what the operator set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sgl_core.api.parsers import ParseContext, ReasoningParserFactory, ToolParserFactory

from .detokenize import DetokenizerFactory
from .errors import RequestError
from .front import Front
from .metrics import Metrics
from .prompts import Encoder
from .request import ModelCard, ParseSettings
from .request_log import RequestLog
from .templates import ChatTemplate
from .tokenizer import TextTokenizer
from .validate import check_generates

TAIL = 256
"""Characters of the prompt's end that parsers see."""


@dataclass(slots=True, kw_only=True)
class Service:
    """One served model. ``info`` is what /server_info shows of the configuration (secrets masked) and its ledger.

    ``parser_flags`` are the capability words of the configured parsers' specs; ``special_tokens`` among them says that a parser
    reads special tokens, so they are left in the text for it.
    """

    front: Front
    template: ChatTemplate | None = None
    reasoning_parser: ReasoningParserFactory | None = None
    tool_parser: ToolParserFactory | None = None
    parser_flags: frozenset[str] = frozenset()
    strict_thinking: bool = False
    """Whether what must not come while the model thinks is forbidden."""
    metrics: Metrics | None = None
    incremental: bool = False
    """Whether native streams carry only what is new (else all the text so far)."""
    info: Mapping[str, Any] = field(default_factory=dict)
    request_log: RequestLog = field(default_factory=RequestLog)
    """What logs requests; it observes the front while that is on."""
    find_parser: Callable[[str, str], Any] | None = None
    """Loads a parser: (``tool_parsers`` or ``reasoning_parsers``, name). Raises RegistryError. None: the configured ones only."""

    @property
    def card(self) -> ModelCard:
        return self.front.card

    @property
    def tokenizer(self) -> TextTokenizer:
        if self.front.tokenizer is None:
            raise RequestError("the server has no tokenizer yet", status=503, code="loading")
        return self.front.tokenizer

    @property
    def encoder(self) -> Encoder:
        if self.front.encoder is None:
            raise RequestError("the server has no tokenizer yet", status=503, code="loading")
        return self.front.encoder

    @property
    def detokenizers(self) -> DetokenizerFactory:
        if self.front.detokenizers is None:
            raise RequestError("the server has no tokenizer yet", status=503, code="loading")
        return self.front.detokenizers

    def chat_template(self) -> ChatTemplate:
        """The template. Raises RequestError where the model has none."""
        check_generates(self.card)
        if self.template is None:
            raise RequestError(
                f"model {self.card.name!r} has no chat template; use /v1/completions, "
                "or start the server with --chat-template FILE",
                param="messages",
                code="no_chat_template",
            )
        return self.template

    def parse_settings(
        self,
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        parse_tools: bool = False,
        separate_reasoning: bool = True,
        prompt: str = "",
        thinking: bool | None = None,
        constrained: bool = False,
    ) -> ParseSettings | None:
        """How a chat answer is parsed, or None where no parser applies."""
        reasoning = self.reasoning_parser if separate_reasoning else None
        call_parser = self.tool_parser if parse_tools else None
        if reasoning is None and call_parser is None:
            return None
        context = ParseContext(
            tools=tuple(tools),
            prompt_tail=prompt[-TAIL:],
            constrained=constrained,
            thinking=thinking,
            separate_reasoning=separate_reasoning,
            parse_tools=parse_tools,
        )
        return ParseSettings(context=context, reasoning=reasoning, tools=call_parser)
