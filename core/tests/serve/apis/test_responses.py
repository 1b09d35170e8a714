"""The Responses API: the order of events (field case 43), plain equals stream, storage, continuation, background."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from sgl_core.engine.messages import Output
from sgl_core.serve.responses.store import Record, ResponseStore
from sgl_core.serve.testing import says

pytestmark = pytest.mark.anyio
ROUTE = "/v1/responses"
ANSWER = '<think>two and two</think>It is 4.<call>f {"city": "Oslo"}</call>'


def events_of(text: str) -> list[dict[str, Any]]:
    events = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


async def stream(api: Any, body: dict[str, Any]) -> list[dict[str, Any]]:
    response = await api.post(ROUTE, {**body, "stream": True})
    assert response.status_code == 200, response.text
    return events_of(response.text)


def unnamed(response: dict[str, Any]) -> dict[str, Any]:
    """Without what differs from call to call."""
    output = [{**item, "id": "", "call_id": ""} for item in response["output"]]
    return {**response, "id": "", "created_at": 0, "completed_at": 0, "output": output}


@pytest.mark.field_case("43")
async def test_case_43_the_order_of_events(serve) -> None:
    async with serve() as api:
        events = await stream(api, {"input": "What is 2 + 2?"})
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert set(kinds[4:-4]) == {"output_text.delta"}
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", "completed"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    text = "".join(event["delta"] for event in events[4:-4])
    final = events[-1]["response"]
    assert events[-4]["text"] == text == final["output"][0]["content"][0]["text"]
    assert {event["item_id"] for event in events[3:-2]} == {final["output"][0]["id"]}
    assert events[-2]["item"] == final["output"][0]
    assert events[0]["response"]["status"] == "in_progress"
    assert events[0]["response"]["output"] == []
    assert final["status"] == "completed"


async def test_a_stream_adds_up_to_the_plain_answer(serve, tokenizer, parsers, weather) -> None:
    script = says(tokenizer.encode(ANSWER, False), eos=tokenizer.eos_token_ids[0])
    tool = {"type": "function", "name": "f", "parameters": weather}
    async with serve(script, **parsers) as api:
        for body in (
            {"input": "hi", "tools": [tool]},
            {"input": "hi", "tools": [tool], "max_output_tokens": 20},
            {"input": "hi", "include": ["message.output_text.logprobs"], "top_logprobs": 2},
        ):
            events = await stream(api, body)
            plain = (await api.post(ROUTE, body)).json()
            assert unnamed(events[-1]["response"]) == unnamed(plain)
            added = [event["item"]["id"] for event in events if event["type"].endswith("output_item.added")]
            assert added == [item["id"] for item in events[-1]["response"]["output"]]
            assert api.service.front.running == 0


async def test_items_of_thinking_text_and_calls(serve, tokenizer, parsers, weather) -> None:
    script = says(tokenizer.encode(ANSWER, False), eos=tokenizer.eos_token_ids[0])
    tool = {"type": "function", "name": "f", "parameters": weather}
    async with serve(script, **parsers) as api:
        answer = (await api.post(ROUTE, {"input": "hi", "tools": [tool]})).json()
        thinking, message, call = answer["output"]
        assert thinking["content"] == [{"type": "reasoning_text", "text": "two and two"}]
        assert message["content"][0]["text"] == "It is 4."
        assert (call["name"], call["arguments"]) == ("f", '{"city": "Oslo"}')
        assert call["call_id"].startswith("call_")
        assert answer["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
        follow = {"input": [result], "previous_response_id": answer["id"], "tools": [tool]}
        assert (await api.post(ROUTE, follow)).status_code == 200
        prompt = api.tokenizer.decode(api.channel.generated()[-1].input_ids, skip_special=False)
        assert "<|im_start|>assistant\nIt is 4.<|im_end|>" in prompt
        assert "<|im_start|>tool\nrain<|im_end|>" in prompt


async def test_a_limit_makes_it_incomplete(serve) -> None:
    async with serve() as api:
        answer = (await api.post(ROUTE, {"input": "hi", "max_output_tokens": 3})).json()
        assert answer["status"] == "incomplete"
        assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
        assert answer["output"][0]["status"] == "incomplete"
        assert (await stream(api, {"input": "hi", "max_output_tokens": 3}))[-1]["type"] == "response.incomplete"


async def test_continuation_keeps_the_whole_conversation_but_not_the_instructions(serve) -> None:
    async with serve() as api:
        first = (await api.post(ROUTE, {"input": "one", "instructions": "Be brief."})).json()
        second = (await api.post(ROUTE, {"input": "two", "previous_response_id": first["id"]})).json()
        assert (await api.client.delete(f"{ROUTE}/{first['id']}")).json()["deleted"] is True
        await api.post(ROUTE, {"input": "three", "previous_response_id": second["id"]})
        prompt = api.tokenizer.decode(api.channel.generated()[-1].input_ids, skip_special=False)
        assert [prompt.index(word) for word in ("one", "two", "three")] == sorted(
            prompt.index(word) for word in ("one", "two", "three")
        )
        assert "Be brief." not in prompt
        items = (await api.client.get(f"{ROUTE}/{second['id']}/input_items?order=asc&limit=2")).json()
        assert [item["role"] for item in items["data"]] == ["user", "assistant"]
        assert items["has_more"] is True
        rest = (await api.client.get(f"{ROUTE}/{second['id']}/input_items?order=asc&after={items['last_id']}")).json()
        assert rest["data"][0]["content"] == [{"type": "input_text", "text": "two"}]
        response = await api.post(ROUTE, {"input": "x", "previous_response_id": first["id"]})
        assert response.status_code == 404
        assert response.json()["error"]["param"] == "previous_response_id"


async def test_the_prompt_is_counted(serve) -> None:
    async with serve() as api:
        await api.post(ROUTE, {"input": "hello", "instructions": "Be brief."})
        counted = await api.post(f"{ROUTE}/input_tokens", {"input": "hello", "instructions": "Be brief."})
        assert counted.json()["input_tokens"] == len(api.channel.generated()[0].input_ids)
        assert len(api.channel.generated()) == 1


async def test_a_response_that_failed_says_so(serve) -> None:
    def full(message: Any) -> Any:
        yield Output(rid=message.rid, finish_reason="error", message="the queue is full", status=429)

    async with serve(full) as api:
        for extra in ({}, {"stream": True}):
            assert (await api.post(ROUTE, {"input": "x", **extra})).status_code == 429
        made = (await api.post(ROUTE, {"input": "x", "background": True})).json()
        events = events_of((await api.client.get(f"{ROUTE}/{made['id']}?stream=true")).text)
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["error"]["code"] == "rate_limit_exceeded"
        kept = [record.response["status"] for record in api.app.state.responses._records.values()]
        assert kept == ["failed"] * 3


async def test_a_client_that_leaves_cancels_its_response(serve) -> None:
    async with serve(silent=True) as api:
        asking = asyncio.create_task(api.post(ROUTE, {"input": "x"}))
        for _ in range(1000):
            if api.channel.generated():
                break
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        (record,) = api.app.state.responses._records.values()
        assert record.response["status"] == "cancelled"
        assert api.service.front.running == 0


async def test_store_false_keeps_nothing(serve) -> None:
    async with serve() as api:
        answer = (await api.post(ROUTE, {"input": "x", "store": False})).json()
        await stream(api, {"input": "x", "store": False})
        assert len(api.app.state.responses) == 0
        assert (await api.client.get(f"{ROUTE}/{answer['id']}")).status_code == 404


async def test_background_is_fetched_followed_and_cancelled(serve) -> None:
    async with serve() as api:
        made = (await api.post(ROUTE, {"input": "x", "background": True})).json()
        assert made["status"] in ("queued", "in_progress")
        followed = events_of((await api.client.get(f"{ROUTE}/{made['id']}?stream=true")).text)
        assert followed[-1]["type"] == "response.completed"
        rest = events_of((await api.client.get(f"{ROUTE}/{made['id']}?stream=true&starting_after=3")).text)
        assert rest == followed[4:]
        assert (await api.client.get(f"{ROUTE}/{made['id']}")).json() == followed[-1]["response"]
        assert (await api.client.post(f"{ROUTE}/{made['id']}/cancel")).status_code == 400
    async with serve(silent=True) as api:
        made = (await api.post(ROUTE, {"input": "x", "background": True})).json()
        cancelled = (await api.client.post(f"{ROUTE}/{made['id']}/cancel")).json()
        assert cancelled["status"] == "cancelled"
        assert api.service.front.running == 0
        assert (await api.client.post(f"{ROUTE}/{made['id']}/cancel")).json()["status"] == "cancelled"


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "input"),
    *(({"input": value}, "input") for value in ("", " ", "\n", [], [""], [[]], 5, None, {"a": 1})),
    ({"input": [{"role": "user", "content": ""}]}, "input[0].content"),
    ({"input": [{"role": "user"}]}, "input[0].content"),
    ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
    ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input_image"),
    ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
    ({"input": "x", "max_output_tokens": 100000}, "max_output_tokens"),
    ({"input": "x" * 600}, "input"),
    ({"input": "x", "temperature": -1}, "temperature"),
    ({"input": "x", "tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"input": "x", "tools": [{"type": "function"}]}, "tools[0].name"),
    ({"input": "x", "tool_choice": "required"}, "tool_choice"),
    ({"input": "x", "text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format"),
    ({"input": "x", "conversation": "conv_1"}, "conversation"),
    ({"input": "x", "truncation": "auto"}, "truncation"),
    ({"input": "x", "background": True, "store": False}, "background"),
    ({"input": "x", "stream_options": {}}, "stream_options"),
    ({"input": "x", "metadata": {"a": 1}}, "metadata"),
    ({"input": "x", "top_logprobs": 2}, "top_logprobs"),
    ({"input": "x", "previous_response_id": 5}, "previous_response_id"),
]


async def test_refusals_name_this_apis_fields(serve) -> None:
    async with serve() as api:
        for body, name in BAD:
            response = await api.post(ROUTE, body)
            assert response.status_code == 400, (body, response.text)
            assert name in response.json()["error"]["message"], response.text
        assert len(api.app.state.responses) == 0
        assert (await api.client.get(f"{ROUTE}/nope")).status_code == 404
        assert (await api.client.get(f"{ROUTE}/nope/input_items?limit=0")).status_code == 404


def record(key: str, size: int = 0, status: str = "completed") -> Record:
    return Record(response={"id": key, "status": status, "output": "x" * size}, items=[], context=[])


def test_the_store_forgets_what_was_used_least() -> None:
    store = ResponseStore(max_count=2)
    for key in "ab":
        store.put(record(key))
    store.get("a")
    store.put(record("c"))
    assert [key in store for key in "abc"] == [True, False, True]


def test_the_store_is_bounded_in_bytes_and_spares_what_runs() -> None:
    store = ResponseStore(max_bytes=1000)
    store.put(record("run", 300, "in_progress"))
    for key in "abc":
        store.put(record(key, 400))
    assert [key in store for key in ("run", "a", "b", "c")] == [True, False, False, True]
    assert store.bytes <= 1000
    store.put(record("huge", 5000))
    assert "huge" not in store
    store.put(record("c", 10))
    store.delete("c")
    store.delete("run")
    assert (store.bytes, len(store)) == (0, 0)
