"""/parse_function_call and /separate_reasoning: the output parsers on a text that the client has."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sgl_core.api.parsers import CallArguments, CallStart, ParseContext, ReasoningDelta, TextDelta
from sgl_core.registry import RegistryError
from sgl_core.serve.core.errors import RequestError, refuse
from sgl_core.serve.core.parsing import ParserChain
from sgl_core.serve.core.request import ParseSettings
from sgl_core.serve.core.service import Service
from sgl_core.serve.http.body import read_model
from sgl_core.serve.http.errors import endpoint, json_response
from sgl_core.serve.openai.chat_protocol import check_tools
from sgl_core.serve.openai.fields import ApiModel


class ParseCallsBody(ApiModel):
    """``tools`` in OpenAI's form. ``tool_call_parser`` unset is the server's."""

    text: str
    tools: list[dict[str, Any]] | None = None
    tool_call_parser: str | None = None


class SeparateBody(ApiModel):
    """``reasoning_parser`` unset is the server's."""

    text: str
    reasoning_parser: str | None = None


async def parse_function_call(request: Request) -> Response:
    body = await read_model(request, ParseCallsBody)
    tools = check_tools(body.tools)
    make = parser(request.app.state.service, "tool_parsers", body.tool_call_parser)
    context = ParseContext(tools=tuple(tools), separate_reasoning=False)
    texts, calls = [], list[dict[str, Any]]()
    chain = ParserChain(ParseSettings(context=context, tools=make))
    for entry in [*chain.feed(body.text), *chain.finish()]:
        if isinstance(entry, TextDelta):
            texts.append(entry.text)
        elif isinstance(entry, CallStart):
            calls.append({"tool_index": entry.index, "name": entry.name, "parameters": ""})
        elif isinstance(entry, CallArguments):
            calls[entry.index]["parameters"] += entry.text
    return json_response({"normal_text": "".join(texts), "calls": calls})


async def separate_reasoning(request: Request) -> Response:
    body = await read_model(request, SeparateBody)
    make = parser(request.app.state.service, "reasoning_parsers", body.reasoning_parser)
    chain = ParserChain(ParseSettings(context=ParseContext(parse_tools=False), reasoning=make))
    events = [*chain.feed(body.text), *chain.finish()]
    thought = "".join(entry.text for entry in events if isinstance(entry, ReasoningDelta))
    text = "".join(entry.text for entry in events if isinstance(entry, TextDelta))
    return json_response({"reasoning_text": thought, "text": text})


def parser(service: Service, slot: str, name: str | None) -> Any:
    """A parser by name, or the server's own. Raises RequestError where there is none."""
    field = {"tool_parsers": "tool_call_parser", "reasoning_parsers": "reasoning_parser"}[slot]
    if name is None or name == "auto":
        own = service.tool_parser if slot == "tool_parsers" else service.reasoning_parser
        if own is None:
            raise refuse(field, f"is required: the server runs without --{field.replace('_', '-')}")
        return own
    if service.find_parser is None:
        raise RequestError(f"{field}: this server loads no parsers by name", param=field, status=501)
    try:
        return service.find_parser(slot, name)
    except RegistryError as error:
        raise refuse(field, str(error)) from None


def routes() -> list[Route]:
    return [
        Route("/parse_function_call", endpoint(parse_function_call), methods=["POST"]),
        Route("/v1/parse_function_call", endpoint(parse_function_call), methods=["POST"]),
        Route("/separate_reasoning", endpoint(separate_reasoning), methods=["POST"]),
        Route("/v1/separate_reasoning", endpoint(separate_reasoning), methods=["POST"]),
    ]
