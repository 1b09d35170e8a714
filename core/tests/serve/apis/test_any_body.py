"""Any JSON that a client may send becomes a checked request of the core, or a 4xx that names a field. Never a fault of the server.

SGL_FUZZ_EXAMPLES sets how many bodies each route is tried with (40 in the suite).
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sgl_core.engine.messages import Generate
from sgl_core.serve.reference.entry import RouteEntry
from sgl_core.serve.reference.table import ROUTES

EXAMPLES = int(os.environ.get("SGL_FUZZ_EXAMPLES", "40"))
CONTEXT = 512
CARD = {
    "embeds": True,
    "labels": ("one", "two", "three", "four"),
    "grammar_kinds": frozenset({"json_schema", "json_object", "regex", "ebnf", "structural_tag"}),
    "grammar_backend": "x",
}
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
    "/generate": {"text": "hi"},
    "/encode": {"text": "hi"},
    "/v1/classify": {"input": "hi"},
    "/v1/score": {"text_1": "a", "text_2": "b"},
    "/v1/rerank": {"query": "a", "documents": ["b"]},
    "/tokenize": {"prompt": "hi"},
    "/detokenize": {"tokens": [65]},
}
NESTED = {"/generate": "sampling_params", "/api/chat": "options", "/api/generate": "options"}
ENTRIES = {entry.path: entry for entry in ROUTES if entry.path in GOOD and "POST" in entry.methods}

# -- what is sent -----------------------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    return text.split()


ROLES = words("user assistant system tool developer function")
KEYS = words(
    "text image_url input_text output_text tool_use tool_result thinking json_schema json_object auto none required any "
    "type role content name function parameters input_schema tool_calls id call_id arguments output summary schema source "
    "properties items enum reasoning function_call function_call_output message format effort cache_control call_1 f hi"
)
texts = st.sampled_from([*ROLES, *KEYS]) | st.text(max_size=8)
numbers = st.integers(-5, 600) | st.sampled_from([2**31, -(2**63), 2**63, 2**70, 10**40, 49_999])
leaves = (
    st.none()
    | st.booleans()
    | numbers
    | st.floats(allow_nan=True)
    | texts
    | st.sampled_from(["\ud800", "", " ", "(", "a+"])
)
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
contents = anything | st.lists(
    st.fixed_dictionaries({"type": texts}, optional={"text": leaves, "content": anything, "input": anything}),
    max_size=3,
)
functions = st.fixed_dictionaries({"name": leaves}, optional={"parameters": anything, "arguments": anything})
calls = st.lists(st.fixed_dictionaries({"function": functions}, optional={"id": leaves, "type": leaves}), max_size=2)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(ROLES) | leaves},
        optional={"content": contents, "tool_calls": calls | anything, "name": leaves, "reasoning_content": leaves},
    ),
    max_size=4,
)
items = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(KEYS)},
        optional={"role": texts, "content": contents, "call_id": leaves, "output": contents, "arguments": leaves},
    ),
    max_size=3,
)
tools = st.lists(
    st.fixed_dictionaries({"type": texts}, optional={"function": functions, "name": leaves, "input_schema": anything}),
    max_size=3,
)
SHAPED = {
    "messages": messages,
    "input": items | st.lists(numbers, max_size=4) | texts,
    "tools": tools,
    "stream": st.booleans(),
    "n": st.integers(0, 4),
    "logit_bias": st.dictionaries(st.integers(-2, 999).map(str) | texts, leaves, max_size=4),
    "stop": st.lists(texts, max_size=3) | texts,
    "system": contents,
}
NAMES = {
    "sampling_params": words("temperature top_p top_k min_p n stop seed max_new_tokens regex json_schema logit_bias"),
    "options": words("temperature top_p top_k min_p stop seed num_predict num_ctx mirostat repeat_penalty"),
}


def values(name: str) -> st.SearchStrategy[Any]:
    own = SHAPED.get(name)
    return anything if own is None else own | anything


def bodies(entry: RouteEntry) -> st.SearchStrategy[dict[str, Any]]:
    """A good body with up to five fields replaced, or anything at all."""
    assert entry.model is not None
    names = sorted({*entry.model.model_fields, *entry.refused, "custom", "model"})
    fields = st.lists(st.sampled_from(names), max_size=5, unique=True)
    changed = fields.flatmap(lambda chosen: st.fixed_dictionaries({name: values(name) for name in chosen}))
    part = NESTED.get(entry.path)
    if part is not None:
        inner = st.dictionaries(st.sampled_from(NAMES[part]), leaves | SHAPED["stop"], max_size=4)
        changed = st.tuples(changed, inner).map(lambda pair: {part: pair[1], **pair[0]})
    good = GOOD[entry.path]
    return changed.map(lambda new: {**good, **new}) | st.dictionaries(texts, anything, max_size=4)


# -- what comes of it -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    yield found
    found.close()


def said(entry: RouteEntry, response: Any) -> str:
    """The words of a refusal, from the shape that the route's API has."""
    error = response.json()["error"]
    return str(error if entry.family == "Ollama" else error["message"])


def check_refusal(entry: RouteEntry, body: dict[str, Any], response: Any) -> None:
    message = said(entry, response)
    assert "Traceback" not in response.text
    assert entry.model is not None
    known = {*entry.model.model_fields, *entry.refused, *body, "the body", "prompt", "messages", "label_token_ids"}
    nested = body.get(NESTED.get(entry.path, ""))
    known |= {*nested} if isinstance(nested, dict) else set()
    assert any(name in message for name in known), message


def check_request(sent: Generate, vocab: int) -> None:
    """Nothing in it can fail inside the engine."""
    assert sent.input_ids
    assert all(0 <= token < vocab for token in sent.input_ids)
    if not sent.embed:
        assert sent.sampling.max_new_tokens is not None
        assert len(sent.input_ids) + sent.sampling.max_new_tokens <= CONTEXT
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=Generate).rid == sent.rid


@pytest.mark.parametrize("path", ENTRIES)
def test_any_body_is_served_or_refused_by_its_field(serve: Any, loop: asyncio.AbstractEventLoop, path: str) -> None:
    entry = ENTRIES[path]
    context = serve(card=CARD)
    api = loop.run_until_complete(context.__aenter__())

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(bodies(entry))
    def one(body: dict[str, Any]) -> None:
        before = len(api.channel.sent)
        response = loop.run_until_complete(api.client.post(path, content=json.dumps(body)))
        if response.status_code == 200:
            for message in api.channel.sent[before:]:
                if isinstance(message, Generate):
                    check_request(message, api.tokenizer.size)
        else:
            assert 400 <= response.status_code < 500, response.text
            check_refusal(entry, body, response)
        assert api.service.front.running == 0
        del api.channel.sent[:]

    try:
        one()
    finally:
        loop.run_until_complete(context.__aexit__(None, None, None))
