"""Anthropic's Messages API: blocks in, events out, plain equals stream, refusals in its own shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sgl_core.serve.http.settings import HttpSettings
from sgl_core.serve.testing import says

pytestmark = pytest.mark.anyio
ROUTE = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
ASK: dict[str, Any] = {"model": "tiny", "max_tokens": 60, "messages": [{"role": "user", "content": "hi"}]}


def events_of(text: str) -> list[dict[str, Any]]:
    events = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def joined(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a stream adds up to, by the rules that Anthropic's clients follow."""
    message: dict[str, Any] = {}
    texts: list[str] = []
    for event in events:
        kind = event["type"]
        if kind == "message_start":
            message = dict(event["message"])
            assert message["content"] == []
        elif kind == "content_block_start":
            assert event["index"] == len(message["content"])
            message["content"].append(dict(event["content_block"]))
            texts.append("")
        elif kind == "content_block_delta":
            delta = event["delta"]
            block = message["content"][event["index"]]
            if delta["type"] == "input_json_delta":
                texts[-1] += delta["partial_json"]
                continue
            key = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}[delta["type"]]
            block[key] += delta[key]
        elif kind == "content_block_stop":
            if message["content"][event["index"]]["type"] == "tool_use":
                message["content"][event["index"]]["input"] = json.loads(texts[-1] or "{}")
        elif kind == "message_delta":
            message |= event["delta"]
            message["usage"] = event["usage"]
    return message


def unnamed(message: dict[str, Any]) -> dict[str, Any]:
    usage = {key: 0 if "cache" in key else value for key, value in message["usage"].items()}
    return {**message, "id": "", "usage": usage, "content": [{**block, "id": ""} for block in message["content"]]}


async def stream(api: Any, body: dict[str, Any]) -> list[dict[str, Any]]:
    response = await api.post(ROUTE, {**body, "stream": True})
    assert response.status_code == 200, response.text
    return events_of(response.text)


async def test_the_order_of_events(serve) -> None:
    async with serve() as api:
        kinds = [event["type"] for event in await stream(api, ASK)]
    assert kinds[:3] == ["message_start", "ping", "content_block_start"]
    assert set(kinds[3:-3]) == {"content_block_delta"}
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


async def test_a_stream_adds_up_to_the_plain_answer(serve, tokenizer, parsers, weather) -> None:
    text = '<think>hm</think>Sure.<call>f {"city": "Oslo"}</call><call>f {}</call>'
    script = says(tokenizer.encode(text, False), eos=tokenizer.eos_token_ids[0])
    tools = [{"name": "f", "description": "weather", "input_schema": weather}]
    one = {"type": "auto", "disable_parallel_tool_use": True}
    async with serve(script, **parsers) as api:
        for extra in (
            {"tools": tools},
            {"tools": tools, "tool_choice": one},
            {"max_tokens": 4},
            {"stop_sequences": ["ure"]},
            {"tools": tools, "tool_choice": {"type": "none"}},
        ):
            body = {**ASK, "max_tokens": 120, **extra}
            plain = (await api.post(ROUTE, body)).json()
            assert unnamed(joined(await stream(api, body))) == unnamed(plain)
        plain = (await api.post(ROUTE, {**ASK, "max_tokens": 120, "tools": tools})).json()
        assert [block["type"] for block in plain["content"]] == ["thinking", "text", "tool_use", "tool_use"]
        assert plain["content"][2]["input"] == {"city": "Oslo"}
        assert plain["content"][2]["id"] != plain["content"][3]["id"]
        assert plain["stop_reason"] == "tool_use"
        only = (await api.post(ROUTE, {**ASK, "max_tokens": 120, "tools": tools, "tool_choice": one})).json()
        assert [block["type"] for block in only["content"]] == ["thinking", "text", "tool_use"]


async def test_reasons_to_stop(serve) -> None:
    async with serve() as api:
        assert (await api.post(ROUTE, ASK)).json()["stop_reason"] == "end_turn"
        assert (await api.post(ROUTE, {**ASK, "max_tokens": 2})).json()["stop_reason"] == "max_tokens"
        stopped = (await api.post(ROUTE, {**ASK, "stop_sequences": ["nope", " time"]})).json()
        assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", " time")
        assert stopped["content"][0]["text"] == "Once upon a"


async def test_messages_reach_the_template(serve) -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "weather?", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"city": "Oslo"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "rain"}]},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no city", "is_error": True},
                {"type": "text", "text": "So?"},
            ],
        },
    ]
    for system in ("Be brief.", [{"type": "text", "text": "Be brief."}]):
        async with serve() as api:
            body = {**ASK, "messages": messages, "system": system}
            assert (await api.post(ROUTE, body)).status_code == 200
            ids = api.channel.generated()[-1].input_ids
            prompt = api.tokenizer.decode(ids, skip_special=False)
            parts = [part.split("<|im_end|>")[0] for part in prompt.split("<|im_start|>")[1:]]
            assert parts == [
                "system\nBe brief.",
                "user\nweather?",
                "assistant\nLet me look.",
                "tool\nrain",
                "tool\nError: no city",
                "user\nSo?",
                "assistant\n",
            ]
            counted = (await api.post(COUNT, {"messages": messages, "system": system})).json()
            assert counted == {"input_tokens": len(ids)}


async def test_a_last_assistant_message_is_the_beginning_of_the_answer(serve) -> None:
    async with serve() as api:
        body = {**ASK, "messages": [*ASK["messages"], {"role": "assistant", "content": "Well,"}]}
        assert (await api.post(ROUTE, body)).status_code == 200
        prompt = api.tokenizer.decode(api.channel.generated()[-1].input_ids, skip_special=False)
        assert prompt.endswith("<|im_start|>assistant\nWell,")


def content(*blocks: Any) -> dict[str, Any]:
    return {**ASK, "messages": [{"role": "user", "content": list(blocks)}]}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"model": "m", "max_tokens": 5}, "messages"),
    ({"messages": ASK["messages"]}, "max_tokens"),
    ({**ASK, "messages": []}, "messages"),
    ({**ASK, "messages": [{"role": "user", "content": " "}]}, "messages[0].content"),
    ({**ASK, "messages": [{"role": "user", "content": []}]}, "messages[0].content"),
    ({**ASK, "messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    (content(IMAGE), "'image'"),
    (content({"type": "tool_result", "content": "x"}), "messages[0].content[0].tool_use_id"),
    (content({"type": "tool_result", "tool_use_id": "a", "content": [IMAGE]}), "'image'"),
    (content("x"), "messages[0].content[0]"),
    ({**ASK, "max_tokens": 0}, "max_tokens"),
    ({**ASK, "max_tokens": 10000}, "max_tokens"),
    ({**ASK, "temperature": 101}, "temperature"),
    ({**ASK, "stop_sequences": [""]}, "stop_sequences"),
    ({**ASK, "stop_sequences": [5]}, "stop_sequences"),
    ({**ASK, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
    ({**ASK, "tools": [{"input_schema": {}}]}, "tools[0].name"),
    ({**ASK, "tools": [{"name": "f", "input_schema": 5}]}, "tools[0].input_schema"),
    ({**ASK, "tool_choice": {"type": "any"}}, "tool_choice"),
    ({**ASK, "tool_choice": {"type": "maybe"}}, "tool_choice"),
    ({**ASK, "thinking": {"type": "enabled", "budget_tokens": 5}}, "thinking.budget_tokens"),
    ({**ASK, "thinking": {"type": "sometimes"}}, "thinking.type"),
    ({**ASK, "mcp_servers": [{}]}, "mcp_servers"),
    ({**ASK, "output_config": {"format": {"type": "xml"}}}, "output_config.format"),
    ({**ASK, "system": 5}, "system"),
    ({**ASK, "system": [IMAGE]}, "'image'"),
]


async def test_refusals_have_anthropics_shape(serve) -> None:
    async with serve() as api:
        for body, name in BAD:
            for streamed in (False, True):
                response = await api.post(ROUTE, {**body, "stream": streamed})
                assert response.status_code == 400, (body, response.text)
                answer = response.json()
                assert answer["type"] == "error"
                assert answer["error"]["type"] == "invalid_request_error"
                assert name in answer["error"]["message"], answer
        assert api.service.front.running == 0


async def test_keys_are_taken_from_x_api_key_and_refused_in_shape(serve) -> None:
    async with serve(settings=HttpSettings(api_keys=("secret",))) as api:
        response = await api.post(ROUTE, ASK)
        assert response.status_code == 401
        assert response.json()["error"]["type"] == "authentication_error"
        assert (await api.post(ROUTE, ASK, headers={"x-api-key": "secret"})).status_code == 200
        assert (await api.client.get(ROUTE, headers={"x-api-key": "secret"})).json()["type"] == "error"


async def test_an_engine_failure_keeps_its_status_and_shape(serve) -> None:
    def full(message: Any) -> Any:
        from sgl_core.engine.messages import Output

        yield Output(rid=message.rid, finish_reason="error", message="the queue is full", status=429)

    async with serve(full) as api:
        for streamed in (False, True):
            response = await api.post(ROUTE, {**ASK, "stream": streamed})
            assert response.status_code == 429
            assert response.json()["error"]["type"] == "rate_limit_error"
