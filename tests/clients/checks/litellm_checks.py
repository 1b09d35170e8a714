"""litellm against a running server, by its providers for OpenAI, Anthropic, Ollama and vLLM servers."""

import asyncio
import json

import httpx
import litellm

ASK = [{"role": "user", "content": "Name three colours."}]
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}
ENOUGH = 400
"""Tokens within which every text of WEATHER ends."""
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}


def options(server, provider, path=""):
    return {"model": f"{provider}/{server.model}", "api_base": server.url + path, "api_key": "none"}


def joined(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def check_chat_by_every_provider(server):
    body = {"model": server.model, "messages": ASK, "max_tokens": 24, "temperature": 0}
    direct = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60).json()
    for provider, path in (("openai", "/v1"), ("hosted_vllm", "/v1"), ("anthropic", ""), ("ollama_chat", "")):
        asked = {**options(server, provider, path), "messages": ASK, "max_tokens": 24, "temperature": 0}
        plain = litellm.completion(**asked)
        assert plain.choices[0].message.content == direct["choices"][0]["message"]["content"], provider
        assert plain.usage.completion_tokens == direct["usage"]["completion_tokens"], provider
        assert joined(litellm.completion(**asked, stream=True)) == plain.choices[0].message.content, provider


def check_the_finish_reason_survives_logprobs_in_a_stream(server):
    asked = {**options(server, "openai", "/v1"), "messages": ASK, "max_tokens": 12, "temperature": 0}
    asked["extra_body"] = {"ignore_eos": True}
    chunks = list(litellm.completion(**asked, logprobs=True, top_logprobs=1, stream=True))
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == ["length"]


def check_async(server):
    async def several():
        asked = {**options(server, "openai", "/v1"), "messages": ASK, "max_tokens": 12, "temperature": 0}
        return await asyncio.gather(*(litellm.acompletion(**asked) for _ in range(4)))

    assert len({answer.choices[0].message.content for answer in asyncio.run(several())}) == 1


def check_tools(server):
    choice = {"type": "function", "function": {"name": "get_weather"}}
    for provider, path in (("openai", "/v1"), ("anthropic", "")):
        asked = {**options(server, provider, path), "messages": ASK, "max_tokens": ENOUGH, "temperature": 0}
        answer = litellm.completion(**asked, tools=[TOOL], tool_choice=choice, parallel_tool_calls=False)
        call = answer.choices[0].message.tool_calls[0]
        assert call.function.name == "get_weather", provider
        assert set(json.loads(call.function.arguments)) == {"city"}, provider


def check_structured_output(server):
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": WEATHER, "strict": True}}
    asked = {**options(server, "openai", "/v1"), "messages": ASK, "max_tokens": ENOUGH, "temperature": 0}
    answer = litellm.completion(**asked, response_format=schema)
    assert set(json.loads(answer.choices[0].message.content)) == {"city"}


def check_text_completion(server):
    asked = {**options(server, "text-completion-openai", "/v1"), "prompt": "The capital of France is", "max_tokens": 8}
    plain = litellm.text_completion(**asked, temperature=0)
    chunks = litellm.text_completion(**asked, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text or "" for chunk in chunks) == plain.choices[0].text


def check_responses(server):
    asked = {**options(server, "openai", "/v1"), "input": "Name three colours.", "max_output_tokens": 24}
    answer = litellm.responses(**asked, temperature=0)
    assert answer.output[0].content[0].text


def check_errors_have_their_class(server):
    for wrong, kind in (
        ({"temperature": -1}, litellm.BadRequestError),
        ({"max_tokens": 99999}, litellm.BadRequestError),
    ):
        try:
            litellm.completion(**options(server, "openai", "/v1"), messages=ASK, num_retries=0, **wrong)
        except kind:
            continue
        raise AssertionError(f"{wrong} was not refused")


def check_embeddings(server):
    for provider, path in (("openai", "/v1"), ("hosted_vllm", "/v1"), ("ollama", "")):
        found = litellm.embedding(**options(server, provider, path), input=["a cat", "a dog"])
        assert len(found.data) == 2, provider
        assert len(found.data[0]["embedding"]) > 100, provider
