"""/v1/chat/completions, the way in: from its body to requests of the core, with template, tools and constraints."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from sgl_core.api.parsers import ParseContext
from sgl_core.api.sampling import GrammarRequest
from sgl_core.serve.core.constraint import constraint
from sgl_core.serve.core.errors import RequestError, refuse, refuse_unserved, unsupported
from sgl_core.serve.core.logit_processor import logit_processor
from sgl_core.serve.core.prompts import Prompt
from sgl_core.serve.core.request import TextRequest
from sgl_core.serve.core.service import TAIL, Service
from sgl_core.serve.core.validate import fit_context, logprob_options, sampling_params

from .chat_protocol import ChatRequest, check_messages, check_tools
from .fields import NAMES, UNSERVED, check_adapter
from .tool_choice import ToolChoice, call_constraint, tool_choice

MAX_TOP_LOGPROBS = 20


@dataclass(slots=True, kw_only=True)
class Chat:
    """One call, translated. ``top_logprobs`` None means that no logprobs were asked for."""

    service: Service
    request: TextRequest
    top_logprobs: int | None
    usage_last: bool
    usage_always: bool
    token_ids: bool
    one_call: bool
    stream_reasoning: bool
    created: int = field(default_factory=lambda: int(time.time()))

    def frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """The envelope of an answer or a chunk."""
        return {
            "id": self.request.rid,
            "object": kind,
            "created": self.created,
            "model": self.service.card.name,
            "choices": choices,
        }


async def translate(body: ChatRequest, service: Service) -> Chat:
    """Check everything, render and tokenize. Raises RequestError."""
    refuse_unserved(body.extras(), UNSERVED["chat"])
    if body.modalities not in (None, [], ["text"]):
        raise unsupported("modalities", "this model writes text only")
    check_messages(body.messages)
    card = service.card
    check_adapter(body.model, card)
    top = _top_logprobs(body)
    usage_last, usage_always = body.usage_wanted(card.include_usage)
    tools = check_tools(body.tools)
    choice = tool_choice(body.tool_choice, tools)
    limit = "max_completion_tokens" if body.max_completion_tokens is not None else body.limit_name
    values = body.sampling()
    if body.max_completion_tokens is not None:
        values["max_new_tokens"] = body.max_completion_tokens
    parse_tools = choice.mode != "none" and service.tool_parser is not None
    if parse_tools and "special_tokens" in service.parser_flags and body.skip_special_tokens is None:
        values["skip_special_tokens"] = False
    sampling = sampling_params(values, card, names={**NAMES, "max_new_tokens": limit}, fewest=1)
    prompt, thinking = await render(body, service, tools if choice.mode != "none" else [])
    context = ParseContext(prompt_tail=(prompt.text or "")[-TAIL:], thinking=thinking)
    grammar = _constraint(body, service, choice, context)
    room = fit_context(sampling, len(prompt.ids), card, param="messages", limit_param=limit)
    request = TextRequest(
        input_ids=prompt.ids,
        sampling=msgspec.structs.replace(sampling, max_new_tokens=room),
        n=body.choices(),
        logprobs=logprob_options(card, output=top is not None, top=top or 0),
        stream=bool(body.stream),
        stream_interval=body.interval(),
        grammar=grammar,
        parse=service.parse_settings(
            tools=tools,
            parse_tools=parse_tools,
            separate_reasoning=body.separate_reasoning is not False,
            prompt=prompt.text or "",
            thinking=thinking,
            constrained=grammar is not None and grammar.kind != "thinking",
        ),
        rid=body.rid or f"chatcmpl-{uuid.uuid4().hex}",
        logit_processor=logit_processor(body.custom_logit_processor, card),
        priority=body.priority or 0,
        cache_salt=body.salt,
    )
    return Chat(
        service=service,
        request=request,
        top_logprobs=top,
        usage_last=usage_last,
        usage_always=usage_always,
        token_ids=bool(body.return_token_ids),
        one_call=body.parallel_tool_calls is False,
        stream_reasoning=body.stream_reasoning is not False,
    )


def _top_logprobs(body: ChatRequest) -> int | None:
    top = body.top_logprobs
    if top is not None and not 0 <= top <= MAX_TOP_LOGPROBS:
        raise refuse("top_logprobs", f"must be at least 0 and at most {MAX_TOP_LOGPROBS}, not {top}")
    if top is not None and not body.logprobs:
        if top == 0 and body.logprobs is None:
            return None
        raise refuse("top_logprobs", "can only be given with logprobs: true")
    return (top or 0) if body.logprobs else None


def _constraint(
    body: ChatRequest, service: Service, choice: ToolChoice, context: ParseContext
) -> GrammarRequest | None:
    """What holds the output, if anything does, and whether thinking comes before it."""
    asked = constraint(
        service.card,
        response_format=body.response_format,
        regex=body.regex,
        ebnf=body.ebnf,
        json_schema=body.json_schema,
        structural_tag=body.structural_tag,
    )
    calls = call_constraint(choice, service, parallel=body.parallel_tool_calls is not False)
    if asked is not None and calls is not None and choice.mode == "required":
        raise refuse("tool_choice", "a call that must come cannot be combined with another constraint on the output")
    grammar = asked or calls
    if service.reasoning_parser is None or not (grammar or service.strict_thinking):
        return grammar
    thinks = service.reasoning_parser.thinks(replace(context, constrained=grammar is not None))
    may = thinks is None and bool(service.reasoning_parser.reasoning_begin)
    if grammar is None and not (thinks or may):
        return None
    grammar = grammar or GrammarRequest(kind="thinking")
    return msgspec.structs.replace(grammar, after_reasoning=thinks is True, may_reason=may)


async def render(body: ChatRequest, service: Service, tools: list[dict[str, Any]]) -> tuple[Prompt, bool | None]:
    """The prompt, and whether request or template variables decide on thinking."""
    template = service.chat_template()
    variables = dict(body.chat_template_kwargs or {})
    if body.reasoning_effort is not None:
        variables.setdefault("reasoning_effort", body.reasoning_effort)
        if body.reasoning_effort == "none":
            variables.setdefault("enable_thinking", False)
            variables.setdefault("thinking", False)
    go_on = bool(body.continue_final_message)
    add = body.add_generation_prompt if body.add_generation_prompt is not None else not go_on
    messages = body.messages
    if "developer" not in template.source:
        messages = [{**m, "role": "system"} if m["role"] == "developer" else m for m in messages]
    text = template.render(
        messages,
        tools=tools,
        documents=body.documents,
        variables=variables,
        add_generation_prompt=add,
        continue_final_message=go_on,
    )
    if not text:
        raise RequestError("messages: the chat template made an empty prompt", param="messages")
    thinking = variables.get("enable_thinking", variables.get("thinking"))
    return await service.encoder.rendered(text), thinking if isinstance(thinking, bool) else None
