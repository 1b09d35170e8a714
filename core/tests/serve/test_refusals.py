"""One table of bad requests over every route that generates: each is a 400 that names its field, and the server goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.anyio

CHAT, TEXT, NATIVE = "/v1/chat/completions", "/v1/completions", "/generate"
MESSAGES = [{"role": "user", "content": "hi"}]
INF = float("inf")
NAN = float("nan")

# Sampling values that no route takes (field cases 13, 16, 17, 44), under the OpenAI names.
BAD_SAMPLING: list[tuple[str, Any]] = [
    ("temperature", -3),
    ("temperature", NAN),
    ("temperature", INF),
    ("temperature", "hot"),
    ("temperature", True),
    ("top_p", 0),
    ("top_p", 7),
    ("min_p", 2.0),
    ("frequency_penalty", 100),
    ("presence_penalty", -2.5),
    ("repetition_penalty", 0),
    ("top_k", -2),
    ("top_k", 1.5),
    ("logit_bias", {"191222": -100, "99999": 5}),
    ("logit_bias", {"abc": 1}),
    ("logit_bias", {"-1": 1}),
    ("logit_bias", {"5": 1000}),
    ("logit_bias", {"5": "x"}),
    ("logit_bias", [1]),
    ("seed", "seven"),
    ("seed", 2**70),
    ("stop", ""),
    ("stop", [""]),
    ("stop", ["a", ""]),
    ("stop", ["x" * 5000]),
    ("stop", ["x"] * 65),
    ("stop", [1]),
    ("stop", {"a": 1}),
    ("stop_regex", "("),
    ("stop_token_ids", [99999999]),
    ("stop_token_ids", [-1]),
    ("stop_token_ids", ["x"]),
    ("min_tokens", -1),
    ("min_tokens", 100),
    ("max_tokens", -1),
    ("max_tokens", 2.5),
    ("n", 0),
    ("n", 1000),
    ("ignore_eos", "yes"),
    ("custom_params", 5),
]
NATIVE_NAMES = {"max_tokens": "max_new_tokens", "min_tokens": "min_new_tokens"}


def body_of(route: str, field: str, value: Any) -> tuple[dict[str, Any], str]:
    if route == NATIVE:
        name = NATIVE_NAMES.get(field, field)
        return {"text": "hi", "sampling_params": {"max_new_tokens": 8, name: value}}, name
    base: dict[str, Any] = {"messages": MESSAGES} if route == CHAT else {"prompt": "hi"}
    return {**base, "max_tokens": 8, field: value}, field


async def post_raw(api: Any, route: str, body: dict[str, Any]) -> Any:
    """As clients in languages whose JSON knows NaN and Infinity send it."""
    return await api.client.post(route, content=json.dumps(body), headers={"content-type": "application/json"})


def check_error(response: Any, status: int, param: str | None) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    if param is not None:
        assert (error["param"] or "").startswith(param), error
        assert param in error["message"]
    assert "Traceback" not in response.text
    assert "Error" not in error["message"]
    return error


@pytest.mark.field_case("13", "16", "17", "44")
@pytest.mark.parametrize("route", [CHAT, TEXT, NATIVE])
async def test_bad_sampling_values_name_their_field(serve, route: str) -> None:
    async with serve() as api:
        for field, value in BAD_SAMPLING:
            for stream in (False, True):
                body, name = body_of(route, field, value)
                check_error(await post_raw(api, route, {**body, "stream": stream}), 400, name)
        good, _ = body_of(route, "temperature", 0)
        assert (await api.post(route, good)).status_code == 200
        assert (await api.client.get("/health")).status_code == 200
        assert api.service.front.running == 0


@pytest.mark.parametrize("route", [CHAT, TEXT, NATIVE])
async def test_boundary_values_are_served(serve, route: str) -> None:
    async with serve() as api:
        good = [("temperature", 0), ("top_p", 1), ("top_k", 1), ("top_k", -1), ("top_k", 0), ("top_k", 9999999)]
        good += [("min_p", 0), ("stop", None), ("stop", [None]), ("stop", []), ("seed", -1), ("logit_bias", {})]
        for field, value in good:
            body, _ = body_of(route, field, value)
            response = await api.post(route, body)
            assert response.status_code == 200, (field, value, response.text)
        assert {message.sampling.top_k for message in api.channel.generated()} == {0, 1}


BLANK = ["", " ", "\n\t", [], [""], ["a", " "], [[]]]


@pytest.mark.parametrize("route", [TEXT, NATIVE, "/v1/embeddings"])
async def test_blank_prompts_are_refused_in_every_form(serve, route: str) -> None:
    field = {TEXT: "prompt", NATIVE: "text", "/v1/embeddings": "input"}[route]
    async with serve(card={"embeds": True}) as api:
        for value in BLANK:
            error = check_error(await api.post(route, {field: value}), 400, field)
            assert "empty" in error["message"]
        for value in (None, 5, {"a": 1}, ["a", 1], [[1], "a"], [True]):
            check_error(await api.post(route, {field: value}), 400, None)


@pytest.mark.field_case("7")
async def test_case_7_an_empty_row_in_a_batch_is_named(serve) -> None:
    async with serve() as api:
        body = {"input_ids": [[5, 6, 7], []], "sampling_params": {"max_new_tokens": 4}}
        error = check_error(await api.post(NATIVE, body), 400, "input_ids")
        assert "input_ids[1]" in error["message"]
        body["input_ids"][1] = [5]
        assert (await api.post(NATIVE, body)).status_code == 200


@pytest.mark.parametrize("ids", [[-1], [10**9], [1, "a"], [1.5]])
async def test_token_ids_outside_the_vocabulary(serve, ids: list[Any]) -> None:
    async with serve() as api:
        check_error(await api.post(TEXT, {"prompt": ids}), 400, "prompt")
        check_error(await api.post(NATIVE, {"input_ids": ids}), 400, "input_ids")


@pytest.mark.field_case("19", "20")
async def test_cases_19_and_20_more_than_the_context(serve) -> None:
    async with serve() as api:
        error = check_error(await api.post(TEXT, {"prompt": "Hi", "max_tokens": 10000}), 400, "max_tokens")
        assert "512" in error["message"]
        assert "10002" in error["message"]
        assert error["code"] == "context_length_exceeded"
        error = check_error(await api.post(TEXT, {"prompt": "x" * 600}), 400, "prompt")
        assert "600" in error["message"]
        chat = {"messages": [{"role": "user", "content": "x" * 600}]}
        check_error(await api.post(CHAT, chat), 400, "messages")
        chat = {"messages": MESSAGES, "max_completion_tokens": 5000}
        check_error(await api.post(CHAT, chat), 400, "max_completion_tokens")
        check_error(
            await api.post(NATIVE, {"text": "Hi", "sampling_params": {"max_new_tokens": 5000}}), 400, "max_new_tokens"
        )


async def test_an_operator_may_have_long_answers_capped(serve) -> None:
    async with serve(card={"auto_truncate": True}) as api:
        response = await api.post(TEXT, {"prompt": "Hi", "max_tokens": 10000, "ignore_eos": True})
        assert response.status_code == 200
        assert response.json()["usage"]["total_tokens"] == 512


@pytest.mark.field_case("4", "22")
async def test_case_4_and_22_logprob_limits(serve) -> None:
    async with serve() as api:
        for value in (-1, 6, 1000):
            check_error(await api.post(TEXT, {"prompt": "hi", "logprobs": value}), 400, "logprobs")
        chat = {"messages": MESSAGES, "logprobs": True}
        for value in (-1, 21, 1000):
            check_error(await api.post(CHAT, {**chat, "top_logprobs": value}), 400, "top_logprobs")
        check_error(
            await api.post(CHAT, {"messages": MESSAGES, "logprobs": False, "top_logprobs": 2}), 400, "top_logprobs"
        )
        check_error(await api.post(TEXT, {"prompt": "hi", "prompt_logprobs": -1}), 400, "prompt_logprobs")
        native = {"text": "hi", "return_logprob": True}
        check_error(await api.post(NATIVE, {**native, "top_logprobs_num": 1000}), 400, "top_logprobs_num")
        check_error(await api.post(NATIVE, {**native, "logprob_start_len": 99}), 400, "logprob_start_len")
        check_error(await api.post(NATIVE, {**native, "token_ids_logprob": [10**7]}), 400, "token_ids_logprob")


@pytest.mark.field_case("23")
@pytest.mark.parametrize("stream", [False, True])
async def test_case_23_lone_surrogates(serve, stream: bool) -> None:
    lone, pair = '"\\uD800"', '"\\ud83e\\udd23"'
    flag = json.dumps(stream)
    bodies = [
        (CHAT, '{"messages":[{"role":"user","content":%s}],"stream":%s}', "messages"),
        (
            CHAT,
            '{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":%s}}],"stream":%s}',
            "tools",
        ),
        (CHAT, '{"messages":[{"role":"user","content":"a"}],"stop":%s,"stream":%s}', "stop"),
        (TEXT, '{"prompt":%s,"max_tokens":4,"stream":%s}', "prompt"),
        (TEXT, '{"prompt":"a","max_tokens":4,"stop":[%s],"stream":%s}', "stop"),
        (NATIVE, '{"text":%s,"sampling_params":{"max_new_tokens":4},"stream":%s}', "text"),
    ]
    async with serve() as api:
        for route, form, field in bodies:
            response = await api.client.post(route, content=form % (lone, flag))
            check_error(response, 400, field)
            response = await api.client.post(route, content=form % (pair, flag))
            assert response.status_code == 200, response.text


@pytest.mark.parametrize("route", [CHAT, TEXT, NATIVE, "/v1/embeddings", "/tokenize", "/abort_request"])
@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"[1]",
        b'"x"',
        b"null",
        b"\xff\xfe",
        b'{"a":' * 3000,
        b"[" * 200000,
        b'{"prompt": 1e999999, "x": 1' + b"0" * 5000 + b"}",
    ],
)
async def test_malformed_bodies(serve, route: str, raw: bytes) -> None:
    async with serve(card={"embeds": True}) as api:
        response = await api.client.post(route, content=raw)
        assert response.status_code == 400
        assert response.json()["error"]["message"]
        assert (await api.client.get("/health")).status_code == 200


async def test_messages_that_no_template_could_take(serve) -> None:
    bad: list[tuple[Any, str]] = [
        ([], "messages"),
        (None, "messages"),
        ("hi", "messages"),
        (["hi"], "messages[0]"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": [5]}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages"),
        ([{"role": "assistant", "content": None, "tool_calls": "x"}], "messages[0].tool_calls"),
        ([{"role": "assistant", "content": None, "tool_calls": [{}]}], "messages[0].tool_calls[0]"),
    ]
    async with serve() as api:
        for messages, field in bad:
            check_error(await api.post(CHAT, {"messages": messages}), 400, field)
        check_error(await api.post(CHAT, {}), 400, "messages")


@pytest.mark.field_case("8")
async def test_case_8_only_an_assistant_message(serve) -> None:
    async with serve() as api:
        body = {"messages": [{"role": "assistant", "content": "Hello, who are you?"}], "max_tokens": 4}
        assert (await api.post(CHAT, body)).status_code == 200


@pytest.mark.field_case("37", "38")
async def test_tools_and_tool_choice(serve) -> None:
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
    bad: list[tuple[dict[str, Any], str]] = [
        ({"tools": [{"type": "function"}]}, "tools[0]"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": 5}}]}, "tools[0].function.parameters"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [tool], "tool_choice": "maybe"}, "tool_choice"),
        ({"tools": [tool], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
        ({"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}}, "tool_choice"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"chat_template": "{{ x }}"}, "chat_template"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"regex": "a+"}, "regex"),
        ({"continue_final_message": True, "add_generation_prompt": True}, "continue_final_message"),
    ]
    async with serve() as api:
        for extra, field in bad:
            check_error(await api.post(CHAT, {"messages": MESSAGES, **extra}), 400, field)
        for extra in (
            {"tools": [tool]},
            {"tools": [tool], "tool_choice": "none"},
            {"functions": None},
            {"store": True},
        ):
            assert (await api.post(CHAT, {"messages": MESSAGES, **extra})).status_code == 200


async def test_stream_options_belong_to_streams(serve) -> None:
    async with serve() as api:
        for route, base in ((CHAT, {"messages": MESSAGES}), (TEXT, {"prompt": "hi"})):
            check_error(
                await api.post(route, {**base, "stream_options": {"include_usage": True}}), 400, "stream_options"
            )


async def test_best_of(serve) -> None:
    async with serve() as api:
        check_error(await api.post(TEXT, {"prompt": "hi", "n": 3, "best_of": 2}), 400, "best_of")
        check_error(await api.post(TEXT, {"prompt": "hi", "best_of": 2, "stream": True}), 400, "best_of")
        response = await api.post(TEXT, {"prompt": "hi", "best_of": 3})
        assert len(response.json()["choices"]) == 1
        assert response.json()["usage"]["completion_tokens"] == 48


async def test_two_constraints_are_one_too_many(serve) -> None:
    card = {"grammar_kinds": frozenset({"regex", "json_object"}), "grammar_backend": "x"}
    async with serve(card=card) as api:
        both = {"regex": "a+", "response_format": {"type": "json_object"}}
        check_error(await api.post(CHAT, {"messages": MESSAGES, **both}), 400, "regex")
        assert (await api.post(CHAT, {"messages": MESSAGES, "regex": "a+"})).status_code == 200
        assert api.channel.generated()[-1].grammar.kind == "regex"
        check_error(await api.post(CHAT, {"messages": MESSAGES, "ebnf": "root ::= x"}), 400, "ebnf")


async def test_unknown_native_sampling_parameters_are_named(serve) -> None:
    async with serve() as api:
        body = {"text": "hi", "sampling_params": {"max_tokens": 5}}
        check_error(await api.post(NATIVE, body), 400, "sampling_params.max_tokens")
        check_error(await api.post(NATIVE, {"text": "a", "input_ids": [1]}), 400, "text")
        check_error(await api.post(NATIVE, {"text": ["a", "b"], "sampling_params": [{}]}), 400, "sampling_params")
        check_error(await api.post(NATIVE, {"text": ["a", "b"], "rid": ["x", "x"]}), 400, "rid")


@pytest.mark.field_case("182")
@pytest.mark.parametrize("route", [CHAT, TEXT, "/v1/messages", "/v1/responses"])
async def test_an_adapter_that_is_not_loaded_is_named(serve, route: str) -> None:
    prompts = {CHAT: "messages", "/v1/messages": "messages", TEXT: "prompt", "/v1/responses": "input"}
    async with serve() as api:
        body = {prompts[route]: MESSAGES if prompts[route] == "messages" else "hi", "model": "tiny:nope"}
        if route != "/v1/responses":
            body["max_tokens"] = 4
        response = await api.post(route, body)
        assert response.status_code == 404
        assert "'nope'" in response.json()["error"]["message"]
        assert (await api.post(route, {**body, "model": "tiny"})).status_code == 200
        if route in (CHAT, TEXT):
            check_error(await api.post(route, {**body, "model": "tiny", "lora_path": "nope"}), 400, "lora_path")
