"""/tokenize and /detokenize: what the tokenizer does to a prompt, and back."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sgl_core.serve.core.errors import refuse
from sgl_core.serve.core.prompts import prompt_list
from sgl_core.serve.core.service import Service
from sgl_core.serve.http.body import parse_model, read_json, read_model
from sgl_core.serve.http.errors import endpoint, json_response
from sgl_core.serve.openai.chat import render
from sgl_core.serve.openai.chat_protocol import ChatRequest, check_messages, check_tools
from sgl_core.serve.openai.fields import ApiModel
from sgl_core.serve.openai.tool_choice import tool_choice


class TokenizeRequest(ApiModel):
    """``prompt`` (one text or several), or ``messages`` with all that the chat route reads of them."""

    prompt: str | list[str] | None = None
    messages: Any = None
    tools: Any = None
    tool_choice: Any = None
    chat_template_kwargs: Any = None
    reasoning_effort: Any = None
    continue_final_message: Any = None
    add_generation_prompt: Any = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeRequest(ApiModel):
    """``tokens``: one list of ids or several."""

    tokens: Any = None
    skip_special_tokens: bool | None = None


async def tokenize(request: Request) -> Response:
    raw = await read_json(request)
    service: Service = request.app.state.service
    if raw.get("messages") is not None:
        chat = parse_model(raw, ChatRequest)
        check_messages(chat.messages)
        tools = check_tools(chat.tools)
        shown = tools if tool_choice(chat.tool_choice, tools).mode != "none" else []
        prompt, _ = await render(chat, service, shown)
        return json_response(_counted(service, prompt.ids, bool(raw.get("return_token_strs"))))
    body = parse_model(raw, TokenizeRequest)
    if body.prompt is None:
        raise refuse("prompt", "is required (or messages)")
    add, texts = body.add_special_tokens is not False, bool(body.return_token_strs)
    if isinstance(body.prompt, str):
        ids = await service.encoder.encode(body.prompt, add_special=add)
        return json_response(_counted(service, ids, texts))
    rows = [await service.encoder.encode(text, add_special=add) for text in body.prompt]
    counts = [len(ids) for ids in rows]
    return json_response({"tokens": rows, "count": counts, "max_model_len": service.card.context_length})


def _counted(service: Service, ids: list[int], texts: bool) -> dict[str, Any]:
    out: dict[str, Any] = {"tokens": ids, "count": len(ids), "max_model_len": service.card.context_length}
    if texts:
        out["token_strs"] = [service.detokenizers.raw(token).decode("utf-8", "replace") for token in ids]
    return out


async def detokenize(request: Request) -> Response:
    body = await read_model(request, DetokenizeRequest)
    service: Service = request.app.state.service
    if body.tokens == []:
        return json_response({"text": "", "prompt": ""})
    rows, several = prompt_list(body.tokens, "tokens", service.card)
    if isinstance(rows[0], str):
        raise refuse("tokens", "must be token ids")
    skip = body.skip_special_tokens is True
    found = [service.tokenizer.decode(row, skip_special=skip) for row in rows if not isinstance(row, str)]
    text = found if several else found[0]
    return json_response({"text": text, "prompt": text})


def routes() -> list[Route]:
    return [
        Route("/tokenize", endpoint(tokenize), methods=["POST"]),
        Route("/v1/tokenize", endpoint(tokenize), methods=["POST"]),
        Route("/detokenize", endpoint(detokenize), methods=["POST"]),
        Route("/v1/detokenize", endpoint(detokenize), methods=["POST"]),
    ]
