"""Official clients, unmodified, over a real socket: openai (sync, async), anthropic, ollama."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import anthropic
import numpy as np
import ollama
import openai
import pytest
from pydantic import BaseModel

from sgl_core.serve.http.settings import HttpSettings
from sgl_core.serve.testing import says

STORY_START = "Once upon a time"
CALLING = '<think>hm</think>Sure.<call>f {"city": "Oslo"}</call>'
ASK = [{"role": "user", "content": "hi"}]


@pytest.fixture
def calling(tokenizer: Any) -> Any:
    """A model that thinks, answers and calls a tool."""
    return says(tokenizer.encode(CALLING, False), eos=tokenizer.eos_token_ids[0])


def client_of(server: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


# -- openai -----------------------------------------------------------------------------------------------------------


def test_openai_chat_and_completions(live) -> None:
    with live() as server, client_of(server) as client:
        plain = client.chat.completions.create(model="tiny", messages=ASK)
        chunks = list(
            client.chat.completions.create(
                model="tiny", messages=ASK, stream=True, stream_options={"include_usage": True}
            )
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == plain.choices[0].message.content
        assert text.startswith(STORY_START)
        assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens
        done = client.completions.create(model="tiny", prompt="hi", max_tokens=5, logprobs=2)
        assert done.choices[0].text.startswith("Once")
        assert len(done.choices[0].logprobs.tokens) == 5
        assert [model.id for model in client.models.list()] == ["tiny"]
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="tiny", messages=ASK, temperature=-1)
        assert refused.value.param == "temperature"


def test_openai_async(live) -> None:
    async def talk(url: str) -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:

            async def one() -> str:
                stream = await client.chat.completions.create(model="tiny", messages=ASK, stream=True)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            return list(await asyncio.gather(*(one() for _ in range(8))))

    with live() as server:
        texts = asyncio.run(talk(server.url))
    assert len(set(texts)) == 1
    assert texts[0].startswith(STORY_START)


class Weather(BaseModel):
    """What parse() is to give back."""

    city: str
    degrees: int


def test_openai_parse(live, tokenizer) -> None:
    script = says(tokenizer.encode('{"city": "Oslo", "degrees": -3}', False), eos=tokenizer.eos_token_ids[0])
    card = {"grammar_kinds": frozenset({"json_schema"}), "grammar_backend": "x"}
    with live(script, card=card) as server, client_of(server) as client:
        parsed = client.chat.completions.parse(model="tiny", messages=ASK, response_format=Weather)
        assert parsed.choices[0].message.parsed == Weather(city="Oslo", degrees=-3)
        answer = client.responses.parse(model="tiny", input="hi", text_format=Weather)
        assert answer.output_parsed == Weather(city="Oslo", degrees=-3)
        sent = server.api.channel.generated()
        assert json.loads(sent[0].grammar.text) == json.loads(sent[1].grammar.text)


def test_openai_tools_in_a_stream(live, calling, parsers, weather) -> None:
    tools: Any = [{"type": "function", "function": {"name": "f", "parameters": weather}}]
    with live(calling, **parsers) as server, client_of(server) as client:
        with client.chat.completions.stream(model="tiny", messages=ASK, tools=tools) as stream:
            stream.until_done()
            final = stream.get_final_completion()
        (call,) = final.choices[0].message.tool_calls or ()
        assert json.loads(call.function.arguments) == {"city": "Oslo"}
        assert final.choices[0].finish_reason == "tool_calls"


def test_openai_responses(live, calling, parsers, weather) -> None:
    tools: Any = [{"type": "function", "name": "f", "parameters": weather, "strict": None}]
    with live(calling, **parsers) as server, client_of(server) as client:
        plain = client.responses.create(model="tiny", input="hi", tools=tools)
        assert plain.output_text == "Sure."
        assert [item.type for item in plain.output] == ["reasoning", "message", "function_call"]
        with client.responses.stream(model="tiny", input="hi", tools=tools) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        assert final.output_text == "Sure."
        assert client.responses.retrieve(final.id).output_text == "Sure."
        items = list(client.responses.input_items.list(final.id))
        assert [item.type for item in items] == ["message"]
        call = final.output[-1]
        again = client.responses.create(
            model="tiny",
            previous_response_id=final.id,
            input=[{"type": "function_call_output", "call_id": call.call_id, "output": "rain"}],  # type: ignore[union-attr]
        )
        assert again.previous_response_id == final.id
        client.responses.delete(final.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(final.id)


def test_openai_responses_in_the_background(live) -> None:
    with live() as server, client_of(server) as client:
        made = client.responses.create(model="tiny", input="hi", background=True)
        events = list(client.responses.retrieve(made.id, stream=True))
        assert events[-1].type == "response.completed"
        rest = list(client.responses.retrieve(made.id, stream=True, starting_after=events[2].sequence_number))
        assert [event.sequence_number for event in rest] == [event.sequence_number for event in events[3:]]
    with live(silent=True) as server, client_of(server) as client:
        made = client.responses.create(model="tiny", input="hi", background=True)
        assert client.responses.cancel(made.id).status == "cancelled"


@pytest.mark.field_case("40")
def test_openai_embeddings_case_40(live) -> None:
    with live(card={"embeds": True}) as server, client_of(server) as client:
        found = [
            client.embeddings.create(model="tiny", input=["Hello my name is"], **more).data[0].embedding
            for more in ({}, {"encoding_format": "float"})
        ]
        np.testing.assert_array_equal(np.array(found[0], np.float32), np.array(found[1], np.float32))
        assert len(client.embeddings.create(model="tiny", input="abc", dimensions=2).data[0].embedding) == 2
        assert len(client.embeddings.create(model="tiny", input=[[65], [66, 67]]).data) == 2


def test_openai_files_and_batches(live, tmp_path: Path) -> None:
    rows = [
        {
            "custom_id": f"r{n}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "tiny", "messages": ASK},
        }
        for n in range(10)
    ]
    settings = HttpSettings(file_storage=str(tmp_path / "store"))
    with live(settings=settings) as server, client_of(server) as client:
        content = "\n".join(json.dumps(row) for row in rows).encode()
        file = client.files.create(file=("in.jsonl", content), purpose="batch")
        assert client.files.content(file.id).read() == content
        batch = client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"a": "b"}
        )
        for _ in range(2000):
            if batch.status == "completed":
                break
            batch = client.batches.retrieve(batch.id)
        assert batch.status == "completed"
        assert batch.request_counts is not None
        assert batch.request_counts.completed == 10
        results = client.files.content(batch.output_file_id or "").text.splitlines()
        assert {json.loads(row)["custom_id"] for row in results} == {row["custom_id"] for row in rows}
        assert [found.id for found in client.batches.list()] == [batch.id]
        assert {found.id for found in client.files.list()} == {file.id, batch.output_file_id}
        assert client.files.delete(file.id).deleted


# -- anthropic --------------------------------------------------------------------------------------------------------


def test_anthropic_messages(live, calling, parsers, weather) -> None:
    tools: Any = [{"name": "f", "description": "the weather", "input_schema": weather}]
    settings = HttpSettings(api_keys=("secret",))
    with live(calling, settings=settings, **parsers) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="secret", max_retries=0)
        ask: dict[str, Any] = {"model": "tiny", "max_tokens": 100, "messages": ASK, "tools": tools}
        plain = client.messages.create(**ask)
        assert [block.type for block in plain.content] == ["thinking", "text", "tool_use"]
        assert plain.content[2].input == {"city": "Oslo"}  # type: ignore[union-attr]
        assert plain.stop_reason == "tool_use"
        with client.messages.stream(**ask, system="Be brief.") as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        assert text == "Sure."
        assert [block.type for block in final.content] == [block.type for block in plain.content]
        assert final.usage.output_tokens == plain.usage.output_tokens
        raw = list(client.messages.create(**ask, stream=True))
        assert raw[-1].type == "message_stop"
        follow = client.messages.count_tokens(
            model="tiny",
            messages=[
                *ASK,  # type: ignore[list-item]
                {"role": "assistant", "content": final.content},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": final.content[2].id, "content": "rain"}],  # type: ignore[union-attr]
                },
            ],
            tools=tools,
        )
        assert follow.input_tokens > plain.usage.input_tokens
        with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
            client.messages.create(**{**ask, "max_tokens": 5_000})
        with pytest.raises(anthropic.AuthenticationError):
            anthropic.Anthropic(base_url=server.url, api_key="wrong", max_retries=0).messages.create(**ask)


def test_anthropic_async(live) -> None:
    async def talk(url: str) -> str:
        client = anthropic.AsyncAnthropic(base_url=url, api_key="none")
        ask: dict[str, Any] = {"model": "tiny", "max_tokens": 60, "messages": ASK}
        async with client, client.messages.stream(**ask) as stream:
            return "".join([text async for text in stream.text_stream])

    with live() as server:
        assert asyncio.run(talk(server.url)).startswith(STORY_START)


# -- ollama -----------------------------------------------------------------------------------------------------------


def f(city: str) -> str:
    """The weather.

    Args:
        city: where
    """
    return f"rain in {city}"


def test_ollama(live, calling, parsers) -> None:
    with live(calling, card={"embeds": True}, **parsers) as server:
        client = ollama.Client(host=server.url)
        plain = client.chat(model="tiny", messages=ASK, tools=[f])
        assert plain.message.content == "Sure."
        assert plain.message.thinking == "hm"
        (call,) = plain.message.tool_calls or ()
        assert call.function.arguments == {"city": "Oslo"}
        parts = list(client.chat(model="tiny", messages=ASK, tools=[f], stream=True))
        assert "".join(part.message.content or "" for part in parts) == "Sure."
        assert parts[-1].done_reason == "stop"
        assert parts[-1].eval_count == plain.eval_count
        history = [*ASK, plain.message, {"role": "tool", "tool_name": "f", "content": "rain"}]
        assert client.chat(model="tiny", messages=history, tools=[f]).message.content == "Sure."
        pieces = list(client.generate(model="tiny", prompt="hi", stream=True, options={"num_predict": 9}))
        assert pieces[-1].done_reason == "length"
        assert client.list().models[0].model == "tiny"
        assert "tools" in (client.show("tiny").capabilities or [])
        assert client.ps().models[0].model == "tiny"
        assert len(client.embed(model="tiny", input=["a", "b"]).embeddings) == 2
        with pytest.raises(ollama.ResponseError, match=r"options\.top_p"):
            client.chat(model="tiny", messages=ASK, options={"top_p": 7})


def test_ollama_async(live) -> None:
    async def talk(url: str) -> str:
        client = ollama.AsyncClient(host=url)
        return "".join([part.response async for part in await client.generate(model="tiny", prompt="hi", stream=True)])

    with live() as server:
        assert asyncio.run(talk(server.url)).startswith(STORY_START)
