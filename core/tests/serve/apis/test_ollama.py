"""Ollama's API: lines and whole answers, options, models, embeddings, refusals in its own shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sgl_core.serve.testing import says

pytestmark = pytest.mark.anyio
CHAT, GENERATE = "/api/chat", "/api/generate"
ASK: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
TIMES = ("total_duration", "prompt_eval_duration", "eval_duration")


async def lines(api: Any, route: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """A stream, which is what Ollama answers unless asked otherwise."""
    response = await api.post(route, body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("application/x-ndjson")
    found = [json.loads(line) for line in response.text.splitlines()]
    assert [line["done"] for line in found] == [False] * (len(found) - 1) + [True]
    return found


def settled(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in (*TIMES, "created_at", "message", "logprobs")}


async def test_a_chat_stream_adds_up_to_the_whole_answer(serve, tokenizer, parsers, weather) -> None:
    text = '<think>hm</think>Sure.<call>f {"city": "Oslo"}</call>'
    script = says(tokenizer.encode(text, False), eos=tokenizer.eos_token_ids[0])
    tools = [{"type": "function", "function": {"name": "f", "parameters": weather}}]
    async with serve(script, **parsers) as api:
        found = await lines(api, CHAT, {**ASK, "tools": tools, "logprobs": True, "top_logprobs": 2})
        plain = (
            await api.post(CHAT, {**ASK, "tools": tools, "stream": False, "logprobs": True, "top_logprobs": 2})
        ).json()
    message = plain["message"]
    assert message["content"] == "".join(line["message"]["content"] for line in found) == "Sure."
    assert message["thinking"] == "".join(line["message"].get("thinking", "") for line in found) == "hm"
    calls = [call for line in found for call in line["message"].get("tool_calls", [])]
    assert [call["function"] for call in message["tool_calls"]] == [call["function"] for call in calls]
    assert calls[0]["function"] == {"index": 0, "name": "f", "arguments": {"city": "Oslo"}}
    assert settled(found[-1]) == settled(plain)
    assert plain["logprobs"] == [entry for line in found for entry in line.get("logprobs", [])]
    assert len(plain["logprobs"]) == plain["eval_count"]
    assert plain["done_reason"] == "stop"
    assert all(isinstance(plain[name], int) and plain[name] > 0 for name in TIMES)


async def test_generate_uses_the_template_unless_raw(serve) -> None:
    async with serve() as api:
        found = await lines(api, GENERATE, {"model": "tiny", "prompt": "hi", "system": "Be brief."})
        plain = (await api.post(GENERATE, {"prompt": "hi", "system": "Be brief.", "stream": False})).json()
        assert plain["response"] == "".join(line["response"] for line in found)
        assert plain["response"].startswith("Once upon")
        templated = api.tokenizer.decode(api.channel.generated()[-1].input_ids, skip_special=False)
        assert "<|im_start|>system\nBe brief.<|im_end|>" in templated
        raw = (await api.post(GENERATE, {"prompt": "hi", "raw": True, "stream": False})).json()
        assert api.tokenizer.decode(api.channel.generated()[-1].input_ids, skip_special=False) == "hi"
        assert raw["response"] == plain["response"]


async def test_options_are_mapped(serve) -> None:
    options = {
        "num_predict": 3,
        "temperature": 0.5,
        "top_k": 7,
        "top_p": 0.9,
        "min_p": 0.1,
        "repeat_penalty": 1.1,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "seed": 42,
        "stop": ["x"],
        "num_ctx": 4096,
        "mirostat": 0,
        "typical_p": 1.0,
        "num_gpu": 99,
    }
    async with serve() as api:
        answer = (await api.post(CHAT, {**ASK, "options": options, "stream": False, "keep_alive": "5m"})).json()
        assert (answer["done_reason"], answer["eval_count"]) == ("length", 3)
        sampling = api.channel.generated()[-1].sampling
        assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p) == (0.5, 7, 0.9, 0.1)
        assert (sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty) == (1.1, 0.2, 0.3)
        assert (sampling.seed, sampling.stop, sampling.max_new_tokens) == (42, ("x",), 3)
        await api.post(CHAT, {**ASK, "options": {"num_predict": -1, "seed": -1}})
        last = api.channel.generated()[-1]
        assert last.sampling.max_new_tokens == 512 - len(last.input_ids)
        assert last.sampling.seed is None


async def test_without_a_prompt_the_model_is_loaded(serve) -> None:
    async with serve() as api:
        for route, body in ((GENERATE, {"model": "tiny"}), (GENERATE, {"prompt": ""}), (CHAT, {"messages": []})):
            answer = (await api.post(route, body)).json()
            assert (answer["done"], answer["done_reason"]) == (True, "load")
        assert (await api.post(GENERATE, {"keep_alive": 0})).json()["done_reason"] == "unload"
        assert api.channel.generated() == []


async def test_models(serve, parsers) -> None:
    async with serve(card={"embeds": True, "model_type": "llama"}, **parsers) as api:
        (model,) = (await api.client.get("/api/tags")).json()["models"]
        assert model["name"] == "tiny"
        assert len(model["digest"]) == 64
        (running,) = (await api.client.get("/api/ps")).json()["models"]
        assert running["context_length"] == 512
        for name in ("tiny", "tiny:latest"):
            found = (await api.post("/api/show", {"model": name})).json()
            assert found["capabilities"] == ["completion", "tools", "thinking", "embedding"]
            assert found["model_info"]["llama.context_length"] == 512
        assert (await api.post("/api/show", {"model": "other"})).status_code == 404
        assert (await api.client.get("/api/version")).json()["version"]
        response = await api.post("/api/pull", {"model": "x"})
        assert response.status_code == 501
        assert "operator" in response.json()["error"]


async def test_embeddings(serve) -> None:
    async with serve(card={"embeds": True}) as api:
        two = (await api.post("/api/embed", {"model": "tiny", "input": ["a", "bc"]})).json()
        assert len(two["embeddings"]) == 2
        assert two["prompt_eval_count"] == 3
        one = (await api.post("/api/embed", {"input": "bc", "dimensions": 2})).json()
        assert len(one["embeddings"][0]) == 2
        long = {"input": "ab" * 600}  # the context has 512 tokens
        assert (await api.post("/api/embed", long)).json()["prompt_eval_count"] == 512
        refused = await api.post("/api/embed", {**long, "truncate": False})
        assert refused.status_code == 400
        assert "context is 512 tokens" in refused.json()["error"]
        old = (await api.post("/api/embeddings", {"prompt": "bc"})).json()
        assert old["embedding"] == two["embeddings"][1]


BAD: list[tuple[str, dict[str, Any], str]] = [
    (CHAT, {**ASK, "options": {"temperature": -1}}, "options.temperature"),
    (CHAT, {**ASK, "options": {"num_predict": 0}}, "options.num_predict"),
    (CHAT, {**ASK, "options": {"num_predict": 100000}}, "options.num_predict"),
    (CHAT, {**ASK, "options": {"repeat_penalty": 0}}, "options.repeat_penalty"),
    (CHAT, {**ASK, "options": {"stop": [""]}}, "options.stop"),
    (CHAT, {**ASK, "options": {"mirostat": 1}}, "options.mirostat"),
    (CHAT, {**ASK, "options": {"temprature": 1}}, "options.temprature"),
    (CHAT, {**ASK, "format": "xml"}, "format"),
    (CHAT, {**ASK, "format": {"type": "object"}}, "format"),
    (CHAT, {**ASK, "think": "very"}, "think"),
    (CHAT, {**ASK, "tools": [{"type": "function"}]}, "tools[0]"),
    (CHAT, {"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}, "messages[0].images"),
    (CHAT, {"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    (CHAT, {"messages": "x"}, "messages"),
    (GENERATE, {"prompt": " "}, "prompt"),
    (GENERATE, {"prompt": 5}, "prompt"),
    (GENERATE, {"prompt": "x" * 600}, "prompt"),
    (GENERATE, {"prompt": "x", "suffix": "y"}, "suffix"),
    (GENERATE, {"prompt": "x", "images": ["y"]}, "images"),
    (GENERATE, {"prompt": "x", "raw": True, "logprobs": True, "top_logprobs": 6}, "logprobs"),
    ("/api/embed", {"input": ""}, "input"),
    ("/api/embed", {"input": []}, "input"),
    ("/api/embed", {"input": "x", "dimensions": 9}, "dimensions"),
    ("/api/embeddings", {"prompt": " "}, "prompt"),
    ("/api/show", {}, "model"),
]


async def test_refusals_have_ollamas_shape(serve) -> None:
    async with serve(card={"embeds": True}) as api:
        for route, body, name in BAD:
            response = await api.post(route, body)
            assert response.status_code == 400, (route, body, response.text)
            assert name in response.json()["error"], response.text
        assert api.service.front.running == 0
