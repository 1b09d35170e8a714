"""Cases of the areas D and E over HTTP, on the real model: bad constraints are their own request's fault, good ones hold."""

from __future__ import annotations

import json

import jsonschema
import pytest

ANSWER = {
    "type": "object",
    "properties": {"answer": {"type": "string", "maxLength": 20}},
    "required": ["answer"],
    "additionalProperties": False,
}
ASK = [{"role": "user", "content": "What is two and two?"}]


def chat(server, **fields):
    return server.post(
        "/v1/chat/completions", {"model": server.model, "messages": ASK, "max_tokens": 200, "temperature": 0, **fields}
    )


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


def lives(server):
    """After the bad request a normal one is served."""
    assert chat(server, max_tokens=3).status_code == 200
    assert server.get("/health").status_code == 200


@pytest.mark.field_case("109")
@pytest.mark.parametrize("pattern", ["[a-", "(", "a{2,1}"])
def test_case_109_malformed_patterns(server, pattern):
    answers = [
        chat(server, regex=pattern),
        server.post("/generate", {"text": "Hi", "sampling_params": {"regex": pattern, "max_new_tokens": 5}}),
    ]
    assert [answer.status_code for answer in answers] == [400, 400]
    assert all("regex" in answer.text for answer in answers)
    lives(server)


@pytest.mark.field_case("110")
@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "object", "properties": {"foo": "bar"}, "title": "CarDescription"}, "/properties/foo"),
        ({"type": "array", "items": [{"type": "integer"}]}, "/items"),
        ({"type": "objekt"}, "/type"),
    ],
)
def test_case_110_malformed_schemas(server, schema, pointer):
    answer = chat(server, response_format=schema_format(schema))
    assert answer.status_code == 400
    assert pointer in answer.json()["error"]["message"]
    lives(server)


@pytest.mark.field_case("110")
def test_case_110_legal_oddities(server):
    assert chat(server, response_format=schema_format(json.dumps(ANSWER))).status_code == 200
    anything = chat(server, response_format=schema_format({})).json()["choices"][0]
    if anything["finish_reason"] == "stop":
        json.loads(anything["message"]["content"])


@pytest.mark.field_case("119")
@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "array", "uniqueItems": True}, "/uniqueItems"),
        (
            {"type": "object", "properties": {"a": {"type": "array", "contains": {"const": 1}}}},
            "/properties/a/contains",
        ),
        ({"type": "integer", "if": {"minimum": 3}, "then": {"maximum": 5}}, "/if"),
    ],
)
def test_case_119_unserved_keywords_are_told(server, schema, pointer):
    answer = chat(server, response_format=schema_format(schema))
    assert (answer.status_code, pointer in answer.text) == (400, True)


@pytest.mark.field_case("122", "125")
def test_cases_122_and_125_order_and_escapes(server):
    names = ["sample_type", "target_species", "specifications", "application"]
    schema = {
        "type": "object",
        "properties": {**{name: {"type": "string", "maxLength": 6} for name in names}, "é": {"enum": ["été", "😀"]}},
        "required": [*names, "é"],
        "additionalProperties": False,
    }
    choice = chat(server, response_format=schema_format(schema), max_tokens=1000).json()["choices"][0]
    assert choice["finish_reason"] == "stop"
    value = json.loads(choice["message"]["content"])
    assert list(value) == [*names, "é"]
    assert value["é"] in ("été", "😀")


@pytest.mark.field_case("130")
def test_case_130_special_tokens_of_high_logit(server):
    bias = {str(token): 100 for token in range(3, 17)}
    answer = chat(server, ebnf='root ::= "yes" | "no"', logit_bias=bias).json()["choices"][0]
    assert answer["message"]["content"] in ("yes", "no")
    lives(server)


THINKING = """{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor %}
{{- '<|im_start|>assistant\\n<think>\\n' }}{%- if enable_thinking is false %}{{ '\\n</think>\\n\\n' }}{%- endif %}"""
SHOWN = [
    {"role": "user", "content": "What is one and one?"},
    {"role": "assistant", "content": '<think>\nI add.\n</think>\n\n{"answer": "two"}'},
]


@pytest.fixture(scope="module")
def thinker(start_server, tmp_path_factory):
    """A server whose template opens the thinking, held to strict thinking."""
    template = tmp_path_factory.mktemp("template") / "thinking.jinja"
    template.write_text(THINKING)
    return start_server(
        "--chat-template", str(template), "--reasoning-parser", "deepseek-r1", "--enable-strict-thinking"
    )


@pytest.mark.field_case("107")
def test_case_107_thinking_first_then_the_schema(thinker):
    asked = [*SHOWN, *SHOWN, *SHOWN, *ASK]
    plain = thinker.post(
        "/v1/chat/completions",
        {
            "model": thinker.model,
            "messages": asked,
            "max_tokens": 300,
            "temperature": 0,
            "response_format": schema_format(ANSWER),
        },
    ).json()["choices"][0]
    assert plain["finish_reason"] == "stop"
    message = plain["message"]
    assert message["reasoning_content"]
    assert "think>" not in message["reasoning_content"] + message["content"]
    jsonschema.validate(json.loads(message["content"]), ANSWER)
    answer = thinker.post(
        "/v1/responses",
        {
            "model": thinker.model,
            "input": asked,
            "max_output_tokens": 300,
            "temperature": 0,
            "text": {"format": {"type": "json_schema", "name": "x", "schema": ANSWER}},
        },
    ).json()
    assert answer["status"] == "completed"
    (text,) = [c["text"] for item in answer["output"] if item["type"] == "message" for c in item["content"]]
    jsonschema.validate(json.loads(text), ANSWER)
    assert any(item["type"] == "reasoning" for item in answer["output"])


@pytest.mark.field_case("103")
def test_case_103_cut_inside_the_thinking(thinker):
    cut = thinker.post(
        "/v1/chat/completions", {"model": thinker.model, "messages": ASK, "max_tokens": 4, "temperature": 0}
    ).json()["choices"][0]
    assert (cut["finish_reason"], cut["message"]["content"] or "") == ("length", "")
    assert cut["message"]["reasoning_content"]


@pytest.mark.field_case("104")
def test_case_104_thinking_switched_off(thinker):
    message = thinker.post(
        "/v1/chat/completions",
        {
            "model": thinker.model,
            "messages": [{"role": "user", "content": "你好"}],
            "max_tokens": 8,
            "temperature": 0,
            "ignore_eos": True,
            "chat_template_kwargs": {"enable_thinking": False},
        },
    ).json()["choices"][0]["message"]
    assert message["content"]
    assert message.get("reasoning_content") is None


@pytest.mark.parametrize("seed", range(6))
def test_strict_thinking_ends_only_by_its_end(thinker, seed):
    """Without a schema: no end of the answer, no second opening inside the thinking, whatever is drawn."""
    choice = thinker.post(
        "/v1/chat/completions",
        {
            "model": thinker.model,
            "messages": [*SHOWN, *ASK],
            "max_tokens": 120,
            "seed": seed,
            "skip_special_tokens": False,
            "logprobs": True,
        },
    ).json()["choices"][0]
    thought, end, _ = "".join(entry["token"] for entry in choice["logprobs"]["content"]).partition("</think>")
    assert "<think>" not in thought
    assert choice["finish_reason"] == "length" or end
