"""The official clients of OpenAI, Anthropic and Ollama, unmodified, on the real model.

core/tests/serve/apis/test_official_clients.py has what needs an answer of known words: calls in a conversation, thinking, batches.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import anthropic
import numpy as np
import ollama
import openai
import pytest
from pydantic import BaseModel, ConfigDict, Field

ASK: Any = [{"role": "user", "content": "Name three colours."}]
GREEDY: Any = {"messages": ASK, "max_tokens": 24, "temperature": 0, "extra_body": {"ignore_eos": True}}
ENOUGH = 400
"""Tokens within which every text of ``Weather`` ends: 12 characters, the most white space, one token a byte."""


class Weather(BaseModel):
    """What parse() is to give back; bounded, because a small model does not end a text by itself."""

    model_config = ConfigDict(extra="forbid")
    city: str = Field(max_length=12)
    sky: Literal["clear", "cloudy"]


SCHEMA = Weather.model_json_schema()
LONG = {"type": "array", "items": {"type": "boolean"}, "minItems": 40}
"""No text of it ends within 24 tokens."""


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.root}/v1", api_key="none", max_retries=0) as found:
        yield found


# -- openai -----------------------------------------------------------------------------------------------------------


def test_openai_sync_and_async(server, client):
    plain = client.chat.completions.create(model=server.model, **GREEDY)
    text = plain.choices[0].message.content

    async def several() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server.root}/v1", api_key="none") as other:

            async def one() -> str:
                stream = await other.chat.completions.create(model=server.model, stream=True, **GREEDY)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

            return list(await asyncio.gather(*(one() for _ in range(6))))

    assert plain.usage.completion_tokens == 24
    assert set(asyncio.run(several())) == {text}
    with client.chat.completions.stream(model=server.model, **GREEDY, stop=[text[-4:]]) as stream:
        stream.until_done()  # it wants an answer that ends by itself
        assert stream.get_final_completion().choices[0].message.content == text.partition(text[-4:])[0]
    assert [model.id for model in client.models.list()] == [server.model]


def test_openai_parse(server, client):
    asked = {"model": server.model, "messages": ASK, "max_tokens": ENOUGH}
    parsed = client.chat.completions.parse(**asked, response_format=Weather)
    assert isinstance(parsed.choices[0].message.parsed, Weather)
    answer = client.responses.parse(model=server.model, input="Weather?", text_format=Weather, max_output_tokens=ENOUGH)
    assert isinstance(answer.output_parsed, Weather)
    tool = openai.pydantic_function_tool(Weather)
    called = client.chat.completions.parse(**asked, tools=[tool], tool_choice="required", parallel_tool_calls=False)
    (call,) = called.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Weather)


@pytest.mark.field_case("43")
def test_openai_responses(server, client):
    asked: Any = {"model": server.model, "input": "What is 2 + 2?", "max_output_tokens": 16, "temperature": 0}
    asked["extra_body"] = {"ignore_eos": True}
    plain = client.responses.create(**asked)
    events = list(client.responses.create(**asked, stream=True))
    kinds = [event.type.removeprefix("response.") for event in events]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert set(kinds[4:-4]) == {"output_text.delta"}
    assert kinds[-4:-1] == ["output_text.done", "content_part.done", "output_item.done"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == plain.output_text
    last = events[-1].response
    assert last.output_text == plain.output_text
    assert client.responses.retrieve(last.id).output_text == plain.output_text
    more = client.responses.create(**{**asked, "input": "And 3 + 3?"}, previous_response_id=last.id)
    assert more.usage.input_tokens > plain.usage.input_tokens
    tool: Any = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
    called = client.responses.create(
        **{**asked, "max_output_tokens": ENOUGH, "extra_body": None},
        tools=[tool],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    (call,) = [item for item in called.output if item.type == "function_call"]
    assert Weather.model_validate_json(call.arguments)


@pytest.mark.field_case("40", "41")
def test_openai_embeddings(server, client):
    def vectors(text: Any, **more: Any) -> np.ndarray:
        rows = client.embeddings.create(model=server.model, input=text, **more).data
        return np.array([row.embedding for row in rows], np.float32)

    text = ["Hello my name is"]
    np.testing.assert_array_equal(vectors(text), vectors(text, encoding_format="float"))
    ids = server.post("/tokenize", {"prompt": text[0]}).json()["tokens"]
    np.testing.assert_allclose(vectors(ids), vectors(text), atol=1e-5)
    assert vectors([ids[:1], ids]).shape == (2, vectors(text).shape[1])
    assert np.linalg.norm(vectors(text, dimensions=64)) == pytest.approx(1, abs=1e-5)
    with pytest.raises(openai.BadRequestError, match="encoding_format"):
        vectors(text, encoding_format="foo")


# -- anthropic and ollama ---------------------------------------------------------------------------------------------


def test_anthropic(server):
    client = anthropic.Anthropic(base_url=server.root, api_key="none", max_retries=0)
    asked: Any = {"model": server.model, "messages": ASK, "max_tokens": 24}
    asked["extra_body"] = {"temperature": 0, "ignore_eos": True}
    plain = client.messages.create(**asked)
    assert (plain.usage.output_tokens, plain.stop_reason) == (24, "max_tokens")
    with client.messages.stream(**asked) as stream:
        assert "".join(stream.text_stream) == plain.content[0].text
    count = client.messages.count_tokens(model=server.model, messages=ASK).input_tokens
    assert count == plain.usage.input_tokens + (plain.usage.cache_read_input_tokens or 0)
    tool: Any = {"name": "weather", "input_schema": SCHEMA}
    choice: Any = {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
    asked |= {"max_tokens": ENOUGH, "extra_body": {"temperature": 0}}
    called = client.messages.create(**asked, tools=[tool], tool_choice=choice)
    assert (called.stop_reason, called.content[-1].type) == ("tool_use", "tool_use")
    assert Weather.model_validate(called.content[-1].input)


def test_ollama(server):
    client = ollama.Client(host=server.root)
    options = {"num_predict": 24, "temperature": 0}
    plain = client.chat(model=server.model, messages=ASK, options=options)
    assert 0 < plain.eval_count <= 24
    parts = client.chat(model=server.model, messages=ASK, options=options, stream=True)
    assert "".join(part.message.content or "" for part in parts) == plain.message.content
    whole = client.generate(model=server.model, prompt="Name three colours.", options=options)
    assert whole.response == plain.message.content
    shaped = client.chat(model=server.model, messages=ASK, format=SCHEMA, options={"num_predict": ENOUGH})
    assert Weather.model_validate(json.loads(shaped.message.content or ""))
    cut = client.chat(model=server.model, messages=ASK, format=LONG, options=options)
    assert (cut.eval_count, cut.done_reason) == (24, "length")
    assert len(client.embed(model=server.model, input=["a", "b"]).embeddings) == 2
    assert client.list().models[0].model == server.model
