"""The table of routes is the application's, says something of every field of the official APIs, and the pages made of it are up to date."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ollama._types as ollama_types
import pytest
from anthropic.types import message_count_tokens_params, message_create_params
from openai.types import batch_create_params, completion_create_params, embedding_create_params
from openai.types.chat import completion_create_params as chat_create_params
from openai.types.responses import response_create_params

from sgl_core.serve.api_docs import main, updated
from sgl_core.serve.http.settings import HttpSettings
from sgl_core.serve.ollama.protocol import IGNORED, NEUTRAL, OPTIONS
from sgl_core.serve.reference.entry import RouteEntry
from sgl_core.serve.reference.openapi import document
from sgl_core.serve.reference.table import ROUTES

PAGE = Path(__file__).parents[4] / "docs" / "api.md"
TABLE = {(method, entry.path): entry for entry in ROUTES for method in entry.methods}

OFFICIAL: dict[str, Any] = {
    "/v1/chat/completions": chat_create_params.CompletionCreateParamsStreaming,
    "/v1/completions": completion_create_params.CompletionCreateParamsStreaming,
    "/v1/embeddings": embedding_create_params.EmbeddingCreateParams,
    "/v1/responses": response_create_params.ResponseCreateParamsStreaming,
    "/v1/messages": message_create_params.MessageCreateParamsStreaming,
    "/v1/messages/count_tokens": message_count_tokens_params.MessageCountTokensParams,
}
OLLAMA: dict[str, Any] = {
    "/api/chat": ollama_types.ChatRequest,
    "/api/generate": ollama_types.GenerateRequest,
    "/api/embed": ollama_types.EmbedRequest,
    "/api/show": ollama_types.ShowRequest,
}


@pytest.mark.anyio
async def test_the_table_is_the_applications(serve) -> None:
    async with serve() as api:
        served = {(method, route.path) for route in api.app.routes for method in (route.methods or set()) - {"HEAD"}}
    assert served == set(TABLE)
    assert len(TABLE) == sum(len(entry.methods) for entry in ROUTES)


def told(path: str) -> set[str]:
    return {name for name, _, _ in TABLE["POST", path].fields()}


@pytest.mark.parametrize("path", OFFICIAL)
def test_every_official_field_is_accounted_for(path: str) -> None:
    assert set(typing.get_type_hints(OFFICIAL[path])) - told(path) == set()


@pytest.mark.parametrize("path", OLLAMA)
def test_every_ollama_field_is_accounted_for(path: str) -> None:
    assert set(OLLAMA[path].model_fields) - told(path) == set()


def test_every_ollama_option_is_accounted_for() -> None:
    assert set(ollama_types.Options.model_fields) - set(OPTIONS) - IGNORED - set(NEUTRAL) == {"num_predict"}


def test_batches_take_the_official_fields() -> None:
    official = set(typing.get_type_hints(batch_create_params.BatchCreateParams))
    assert official - told("/v1/batches") == {"output_expires_after"}


REFERENCE = json.loads((Path(__file__).parent / "data" / "reference_fields.json").read_text(encoding="utf-8"))
"""Routes and body fields of the reference system at the version named there, less what its own processes add to a body."""


def test_every_route_of_the_reference_is_accounted_for() -> None:
    ours = {re.sub(r"\{.*?\}", "{}", entry.path) for entry in ROUTES}
    assert {re.sub(r"\{.*?\}", "{}", path) for path in REFERENCE["routes"]} - ours == set()


@pytest.mark.parametrize("path", REFERENCE["fields"])
def test_every_field_of_the_reference_is_accounted_for(path: str) -> None:
    assert set(REFERENCE["fields"][path]) - told(path) == set()


@pytest.mark.anyio
async def test_every_sampling_value_of_the_reference_is_served_or_refused_by_name(serve) -> None:
    async with serve(card={"grammar_kinds": frozenset({"regex"}), "grammar_backend": "x"}) as api:
        for name in REFERENCE["sampling"]:
            response = await api.post("/generate", {"text": "hi", "sampling_params": {name: {"a": 1}}})
            assert response.status_code == (200 if name == "custom_params" else 400), name
            assert response.status_code == 200 or name in response.json()["error"]["message"]


def test_a_field_has_one_status() -> None:
    for entry in ROUTES:
        names = [name for name, _, _ in entry.fields()]
        overlap = {name for name in names if names.count(name) > 1}
        assert not {name for name in overlap if name in entry.ignored}, entry.path


# -- OpenAPI ----------------------------------------------------------------------------------------------------------


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_the_document_is_sound() -> None:
    found = document()
    operations = [operation for path in found["paths"].values() for operation in path.values()]
    assert len(operations) == len([entry for entry in TABLE.values() if not entry.why])
    identities = [operation["operationId"] for operation in operations]
    assert len(set(identities)) == len(identities)
    schemas = found["components"]["schemas"]
    assert {reference.rsplit("/", 1)[1] for reference in references(found)} <= set(schemas)
    temperature = schemas["ChatRequest"]["properties"]["temperature"]
    assert temperature["anyOf"][0] == {"type": "number", "minimum": 0, "maximum": 100}
    json.dumps(found, allow_nan=False)
    for path, item in found["paths"].items():
        named = {p["name"] for operation in item.values() for p in operation.get("parameters", []) if p["in"] == "path"}
        assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}


@pytest.mark.anyio
async def test_the_document_is_served_and_the_page_is_off_by_default(serve) -> None:
    async with serve() as api:
        assert (await api.client.get("/openapi.json")).json()["openapi"].startswith("3.1")
        assert (await api.client.get("/docs")).status_code == 404
    async with serve(settings=HttpSettings(docs_page=True)) as api:
        assert "/v1/chat/completions" in (await api.client.get("/docs")).text


def test_the_page_is_up_to_date(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert updated(text) == text, "run: python -m sgl_core.serve.api_docs docs/api.md"
    copy = tmp_path / "api.md"
    copy.write_text(text.replace("| `temperature` |", "| `warmth` |"), encoding="utf-8")
    assert main([str(copy)]) == 0
    assert copy.read_text(encoding="utf-8") == text
    with pytest.raises(ValueError, match="generated"):
        updated("# no place\n")


# -- every field ------------------------------------------------------------------------------------------------------

GOOD: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/completions": {"prompt": "hi"},
    "/v1/embeddings": {"input": "hi"},
    "/v1/responses": {"input": "hi", "store": False},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "hi"}]},
    "/api/chat": {"messages": [{"role": "user", "content": "hi"}]},
    "/api/generate": {"prompt": "hi"},
    "/api/embed": {"input": "hi"},
    "/api/embeddings": {"prompt": "hi"},
    "/generate": {"text": "hi"},
    "/encode": {"text": "hi"},
    "/v1/score": {"text_1": "a", "text_2": "b"},
    "/v1/rerank": {"query": "a", "documents": ["b"]},
    "/tokenize": {"prompt": "hi"},
    "/detokenize": {"tokens": [65]},
}
WRONG: list[Any] = [
    5,
    -1,
    0,
    1.5,
    float("nan"),
    10**30,
    "x",
    "",
    "\x00",
    True,
    [],
    [None],
    [[]],
    [{}],
    ["x"],
    {},
    {"a": None},
    {"type": "x"},
    {"type": ["x"]},
    [{"type": ["x"]}],
    [{"type": {}, "name": []}],
    [{"role": ["x"], "content": "x"}],
    [{"role": "user", "content": {"a": 1}}],
    [{"role": "user", "content": [{"type": ["x"]}]}],
    [{"role": "user", "content": [{"type": "text", "text": []}]}],
    [{"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}],
    [{"role": "assistant", "content": None, "reasoning_content": 5, "name": {}}],
    [{"role": "tool", "tool_call_id": 5, "content": "x"}],
    [{"type": "function_call", "call_id": [], "name": {}, "arguments": 5}],
    [{"type": "function_call_output", "call_id": "x", "output": [{"type": []}]}],
    [{"type": "reasoning", "summary": 5, "content": {"a": 1}}],
    [{"type": "function", "function": {"name": "f", "parameters": {"type": []}}}],
    [{"type": "function", "name": "f", "parameters": []}],
    {"format": {"type": "json_schema", "schema": [], "name": {}}},
    {"type": "json_schema", "json_schema": {"schema": 5}},
]


CLASSIFIES = {"embeds": True, "labels": ("one",)}


def entries() -> list[RouteEntry]:
    return [entry for entry in ROUTES if entry.model is not None and not entry.why and "POST" in entry.methods]


@pytest.mark.anyio
@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.path)
async def test_no_value_of_any_field_is_a_fault_of_the_server(serve, entry: RouteEntry, tmp_path: Path) -> None:
    settings = HttpSettings(file_storage=str(tmp_path / "store"), header_seconds=0.1)
    assert entry.model is not None
    fields = [*entry.model.model_fields, *entry.refused]
    async with serve(settings=settings, card=CLASSIFIES) as api:
        for name in fields:
            for value in WRONG:
                body = {**GOOD.get(entry.path, {}), name: value}
                response = await api.client.post(entry.path, content=json.dumps(body))
                assert response.status_code < 500, (name, value, response.text)
                if response.status_code >= 400:
                    assert response.json()["error"]
        assert api.service.front.running == 0
        assert (await api.client.get("/health_generate")).status_code == 200
