"""One table of faults over every route that takes a prompt: each is refused with 400, in the route's own shape, and the server goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sgl_core.serve.http.settings import HttpSettings

pytestmark = pytest.mark.anyio
INF, NAN = float("inf"), float("nan")


@dataclass(frozen=True)
class Form:
    """How one route takes a prompt and sampling values. ``names`` are its words for OpenAI's; a word of None: it has none."""

    path: str
    prompt: Callable[[Any], dict[str, Any]]
    names: dict[str, str | None] = field(default_factory=dict)
    nested: str = ""
    more: dict[str, Any] = field(default_factory=dict)
    streams: bool = True

    def body(self, prompt: Any, **values: Any) -> dict[str, Any]:
        own = {self.names.get(name, name): value for name, value in values.items()}
        out = {**self.more, **self.prompt(prompt)}
        if self.nested:
            return {**out, self.nested: {**out.get(self.nested, {}), **own}}
        return {**out, **own}


def user(text: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


FORMS = {
    "chat": Form("/v1/chat/completions", lambda text: {"messages": user(text)}),
    "completions": Form("/v1/completions", lambda text: {"prompt": text}),
    "responses": Form("/v1/responses", lambda text: {"input": text}, {"max_tokens": "max_output_tokens", "n": None}),
    "messages": Form(
        "/v1/messages",
        lambda text: {"messages": user(text)},
        {"stop": "stop_sequences", "n": None, "logit_bias": None, "stop_token_ids": None, "stop_regex": None},
        more={"max_tokens": 8},
    ),
    "native": Form("/generate", lambda text: {"text": text}, {"max_tokens": "max_new_tokens"}, "sampling_params"),
    "ollama chat": Form(
        "/api/chat",
        lambda text: {"messages": user(text)},
        {
            "max_tokens": "num_predict",
            "repetition_penalty": "repeat_penalty",
            "n": None,
            "logit_bias": None,
            "stop_token_ids": None,
            "stop_regex": None,
        },
        "options",
    ),
    "ollama generate": Form(
        "/api/generate",
        lambda text: {"prompt": text},
        {
            "max_tokens": "num_predict",
            "repetition_penalty": "repeat_penalty",
            "n": None,
            "logit_bias": None,
            "stop_token_ids": None,
            "stop_regex": None,
        },
        "options",
    ),
}
EMBEDDING = {
    "embeddings": Form("/v1/embeddings", lambda text: {"input": text}, streams=False),
    "encode": Form("/encode", lambda text: {"text": text}, streams=False),
    "ollama embed": Form("/api/embed", lambda text: {"input": text}, streams=False),
    "score": Form("/v1/score", lambda text: {"text_1": "a", "text_2": text}, streams=False),
    "rerank": Form("/v1/rerank", lambda text: {"query": "a", "documents": text}, streams=False),
}

BAD_VALUES: list[tuple[str, Any]] = [
    ("temperature", -3),
    ("temperature", NAN),
    ("temperature", INF),
    ("temperature", "hot"),
    ("temperature", True),
    ("top_p", 0),
    ("top_p", 7),
    ("min_p", 2.0),
    ("top_k", -2),
    ("top_k", 1.5),
    ("frequency_penalty", 100),
    ("presence_penalty", -2.5),
    ("repetition_penalty", 0),
    ("seed", "seven"),
    ("seed", 2**70),
    ("stop", [""]),
    ("stop", ["a", ""]),
    ("stop", ["x" * 5000]),
    ("stop", ["x"] * 65),
    ("stop", [1]),
    ("stop", {"a": 1}),
    ("stop_token_ids", [99999999]),
    ("stop_token_ids", [-1]),
    ("stop_regex", "("),
    ("logit_bias", {"191222": -100, "99999": 5}),
    ("logit_bias", {"abc": 1}),
    ("logit_bias", {"5": 1000}),
    ("n", 0),
    ("max_tokens", 2.5),
    ("max_tokens", 10000),
    ("max_tokens", "many"),
]
GOOD_VALUES: list[tuple[str, Any]] = [
    ("temperature", 0),
    ("top_p", 1),
    ("top_k", 1),
    ("top_k", -1),
    ("top_k", 9999999),
    ("min_p", 0),
    ("stop", None),
    ("stop", [None]),
    ("stop", []),
    ("seed", 0),
]


def message_of(form: Form, response: Any) -> str:
    """The error's words, from the shape that the route's API has."""
    assert response.status_code == 400, (response.status_code, response.text)
    body = response.json()
    message = body["error"] if form.path.startswith("/api/") else body["error"]["message"]
    if form.path == "/v1/messages":
        assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert isinstance(message, str)
    assert message
    for leak in ("Traceback", "Error(", "Exception"):
        assert leak not in response.text
    return message


async def post_raw(api: Any, path: str, body: Any) -> Any:
    """As clients send it whose JSON knows NaN and Infinity."""
    return await api.client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})


@pytest.mark.field_case("13", "16", "17", "44")
@pytest.mark.parametrize("name", FORMS)
async def test_bad_values_name_their_field(serve, name: str) -> None:
    form = FORMS[name]
    async with serve() as api:
        for word, value in BAD_VALUES:
            own = form.names.get(word, word)
            if own is None:
                continue
            for stream in (False, True):
                body = {**form.body("hi", **{word: value}), "stream": stream}
                assert own in message_of(form, await post_raw(api, form.path, body)), (word, value)
        assert api.channel.generated() == []
        for word, value in GOOD_VALUES:
            response = await post_raw(api, form.path, {**form.body("hi", **{word: value}), "stream": False})
            assert response.status_code == 200, (word, value, response.text)
        assert api.service.front.running == 0


TEXTUAL = {**FORMS, **EMBEDDING}
BLANK = [" ", "\n\t"]
LISTS: list[Any] = [[], [""], ["a", " "]]
TAKES_LISTS = ("completions", "native", *EMBEDDING)


@pytest.mark.parametrize("name", [name for name in TEXTUAL if name not in ("chat", "ollama chat")])
async def test_a_blank_prompt_is_refused_in_every_form(serve, name: str) -> None:
    form = TEXTUAL[name]
    async with serve(card={"embeds": True}) as api:
        values = [*BLANK, *(() if name == "ollama generate" else ("",)), *(LISTS if name in TAKES_LISTS else ())]
        for value in values:
            message_of(form, await api.post(form.path, form.body(value)))
        for value in (5, {"a": 1}, ["a", 1], True):
            message_of(form, await api.post(form.path, form.body(value)))
        assert api.channel.generated() == []


@pytest.mark.field_case("23")
@pytest.mark.parametrize("name", TEXTUAL)
async def test_half_of_a_surrogate_pair_is_refused_wherever_it_stands(serve, name: str) -> None:
    form = TEXTUAL[name]
    async with serve(card={"embeds": True}) as api:
        lone, pair = json.loads('"a\\ud800"'), json.loads('"a\\ud83e\\udd23"')
        wrap = (lambda text: [text]) if name == "rerank" else (lambda text: text)
        bodies = [form.body(wrap(lone))]
        if name in FORMS:
            bodies += [form.body("hi", stop=[lone]), {**form.body("hi"), "stream": True, "x": {lone: [lone]}}]
        for body in bodies:
            message_of(form, await post_raw(api, form.path, body))
        response = await post_raw(api, form.path, {**form.body(wrap(pair)), "stream": False})
        assert response.status_code == 200, response.text


RAW = [
    b"",
    b"{",
    b"[1]",
    b'"x"',
    b"null",
    b"\xff\xfe",
    b'{"a":' * 3000,
    b"[" * 200_000,
    b'{"x": 1' + b"0" * 5000 + b"}",
]


@pytest.mark.parametrize("name", TEXTUAL)
async def test_bodies_that_are_not_json(serve, name: str) -> None:
    form = TEXTUAL[name]
    async with serve(card={"embeds": True}) as api:
        for raw in RAW:
            if raw == RAW[-1] and name.startswith("ollama"):
                continue  # an object of unknown fields asks Ollama to load the model
            message_of(form, await api.client.post(form.path, content=raw))
        assert (await api.client.get("/health")).status_code == 200


@pytest.mark.field_case("20")
@pytest.mark.parametrize("name", FORMS)
async def test_prompts_beyond_the_context(serve, name: str) -> None:
    form = FORMS[name]
    async with serve() as api:
        for stream in (False, True):
            body = {**form.body("x" * 600), "stream": stream}
            assert "512" in message_of(form, await api.post(form.path, body))


@pytest.mark.parametrize("name", TEXTUAL)
async def test_bodies_beyond_the_limit(serve, name: str) -> None:
    form = TEXTUAL[name]
    async with serve(settings=HttpSettings(max_body_bytes=100), card={"embeds": True}) as api:
        response = await api.post(form.path, form.body("x" * 200))
        assert response.status_code == 413
        assert response.json()["error"]


@pytest.mark.field_case("55")
async def test_case_55_an_id_in_use_is_refused_and_neither_hangs(serve) -> None:
    async with serve(silent=True, card={"embeds": True}) as api:
        first = asyncio.create_task(api.post("/generate", {"text": "hi", "rid": "x"}))
        for _ in range(1000):
            if api.channel.generated():
                break
            await asyncio.sleep(0)
        for path, body in (
            ("/generate", {"text": "hi", "rid": "x"}),
            ("/v1/chat/completions", {"messages": user("hi"), "rid": "x"}),
            ("/v1/completions", {"prompt": "hi", "rid": "x"}),
            ("/encode", {"text": "hi", "rid": "x"}),
            ("/v1/embeddings", {"input": "hi", "rid": "x"}),
        ):
            response = await api.post(path, body)
            assert response.status_code == 400, path
            assert response.json()["error"]["code"] == "duplicate_rid"
        assert (await api.post("/abort_request", {"rid": "x"})).json() == {"aborted": 1}
        assert (await first).status_code == 200


@pytest.mark.parametrize("name", TEXTUAL)
async def test_a_server_that_cannot_serve_says_503(serve, name: str) -> None:
    form = TEXTUAL[name]
    async with serve(card={"embeds": True}) as api:
        await api.service.front.drain(0)
        response = await api.post(form.path, form.body(["hi"] if name == "rerank" else "hi"))
        assert response.status_code == 503
        assert "shutting down" in response.text


async def test_every_route_refuses_what_it_cannot_read_without_a_500(serve, tmp_path: Path) -> None:
    """Every route of the application, with bodies of the wrong kinds in every declared field."""
    settings = HttpSettings(file_storage=str(tmp_path / "store"))
    wrong: list[Any] = [None, 5, -1, 1.5, "x", "", [], [None], {}, {"a": None}, True, [[]], [{}], "\x00", 10**30]
    async with serve(settings=settings, card={"embeds": True}) as api:
        for route in api.app.routes:
            path = route.path.replace("{name:path}", "x")
            for part in ("response_id", "file_id", "batch_id"):
                path = path.replace(f"{{{part}}}", "x")
            for method in sorted((route.methods or set()) - {"HEAD"}):
                for value in wrong:
                    keys = ("input", "messages", "prompt", "text", "input_ids", "query", "documents", "tools", "model")
                    body = dict.fromkeys(keys, value) | {
                        "max_tokens": 4,
                        "name": value,
                        "options": value,
                        "tags": value,
                    }
                    response = await api.client.request(method, path, json=body)
                    assert response.status_code < 500 or response.status_code == 501, (method, path, response.text)
        assert api.service.front.running == 0
        assert (await api.client.get("/health_generate")).status_code == 200
