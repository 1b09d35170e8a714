"""The 135M model is bad at JSON; the server is not: every finished answer validates, every call satisfies its schema.

SGL_SCHEMAS sets how many random schemas and tools are tried (40 in the suite).
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import random

import jsonschema
import openai
import pytest

COUNT = int(os.environ.get("SGL_SCHEMAS", "40"))
WORDS = ("city", "name", "count", "price", "tags", "kind", "when", "note")


def scalar(rng: random.Random) -> dict:
    return rng.choice(
        [
            {"type": "string", "maxLength": 12},
            {"type": "string", "enum": rng.sample(["red", "green", "blue", "äöü", "a b"], 3)},
            {"type": "string", "pattern": "^[A-Z][a-z]{1,6}$"},
            {"type": "integer", "minimum": 0, "maximum": 500},
            {"type": "number", "minimum": -1, "maximum": 1},
            {"type": "boolean"},
            {"type": "null"},
            {"const": rng.choice([7, "seven", True])},
            {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 9}, {"type": "null"}]},
        ]
    )


def schema(rng: random.Random, depth: int = 0) -> dict:
    """A random object schema, nested at most twice; open and closed, with optional properties."""
    properties = {}
    for name in rng.sample(WORDS, rng.randint(1, 4)):
        roll = rng.random()
        if depth < 2 and roll < 0.2:
            properties[name] = schema(rng, depth + 1)
        elif roll < 0.4:
            properties[name] = {"type": "array", "items": scalar(rng), "minItems": 1, "maxItems": 3}
        else:
            properties[name] = scalar(rng)
    required = [n for n in properties if rng.random() < 0.8]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server.root}/v1", api_key="none", max_retries=0, timeout=300)


def in_parallel(work, items):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return list(pool.map(work, items))


def test_every_finished_answer_validates(client, server):
    def ask(seed: int):
        wanted = schema(random.Random(seed))
        answer = client.chat.completions.create(
            model=server.model,
            messages=[{"role": "user", "content": f"Give me example data, number {seed}, as JSON."}],
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": wanted}},
            temperature=1.0,
            seed=seed,
            max_tokens=400,
        )
        return wanted, answer.choices[0]

    finished = 0
    for wanted, choice in in_parallel(ask, range(COUNT)):
        if choice.finish_reason == "stop":
            jsonschema.validate(json.loads(choice.message.content), wanted, cls=jsonschema.Draft202012Validator)
            finished += 1
    assert finished >= 0.5 * COUNT


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_must_come_comes_and_fits(client, server, stream):
    def ask(seed: int):
        rng = random.Random(1000 + seed)
        tools = [
            {"type": "function", "function": {"name": f"do_{w}", "parameters": schema(rng)}}
            for w in rng.sample(WORDS, 2)
        ]
        name = rng.choice(tools)["function"]["name"]
        choice = rng.choice(["required", {"type": "function", "function": {"name": name}}])
        asked = {
            "model": server.model,
            "messages": [{"role": "user", "content": "What is your name?"}],
            "tools": tools,
            "tool_choice": choice,
            "parallel_tool_calls": False,
            "temperature": 1.0,
            "seed": seed,
            "max_tokens": 400,
        }
        if not stream:
            got = client.chat.completions.create(**asked).choices[0]
            calls = [(c.function.name, c.function.arguments, c.id) for c in got.message.tool_calls or ()]
            return tools, choice, got.finish_reason, calls, got.message.content
        text, calls, reason = "", [], None
        for chunk in client.chat.completions.create(**asked, stream=True):
            for part in chunk.choices:
                text += part.delta.content or ""
                reason = part.finish_reason or reason
                for call in part.delta.tool_calls or ():
                    if call.id:
                        calls.append((call.function.name, "", call.id))
                    if call.function.arguments:
                        name_, joined, id_ = calls[call.index]
                        calls[call.index] = (name_, joined + call.function.arguments, id_)
        return tools, choice, reason, calls, text

    finished = 0
    for tools, choice, reason, calls, text in in_parallel(ask, range(COUNT // 2)):
        if reason == "length":
            continue
        assert reason == "tool_calls"
        ((name, arguments, call_id),) = calls
        assert call_id.startswith("call_")
        assert not text
        if isinstance(choice, dict):
            assert name == choice["function"]["name"]
        parameters = next(t["function"]["parameters"] for t in tools if t["function"]["name"] == name)
        jsonschema.validate(json.loads(arguments), parameters, cls=jsonschema.Draft202012Validator)
        finished += 1
    assert finished >= 0.5 * (COUNT // 2)


def test_an_unservable_schema_is_refused_by_pointer(client, server):
    bad = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(
            model=server.model,
            messages=[{"role": "user", "content": "x"}],
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": bad}},
        )
    assert "/properties/a/uniqueItems" in str(refusal.value)
    assert server.get("/health").status_code == 200
