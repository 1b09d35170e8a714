"""What users met in other servers: each constraint is exact, or refused with a reason and a pointer; nothing is weakened."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_core.api import GrammarRequest
from sgl_core.api.grammar import GrammarError, tool_call_request
from sgl_core.api.parsers import CallSyntax


def request(kind, text):
    return GrammarRequest(kind=kind, text=text if isinstance(text, str) else json.dumps(text))


CLOSED = {"type": "object", "additionalProperties": False}
TREE = {
    "type": "object",
    "properties": {
        "tree": {
            "type": "object",
            "properties": {
                "left": {"anyOf": [{"type": "string"}, {"$ref": "#/properties/tree"}]},
                "right": {
                    "anyOf": [{"$ref": "#/properties/tree/properties/left/anyOf/0"}, {"$ref": "#/properties/tree"}]
                },
            },
            "additionalProperties": False,
        }
    },
    "additionalProperties": False,
}
QUERIES = {
    "type": "object",
    "properties": {"queries": {"type": "array", "items": {"type": "string"}}},
    "required": ["queries"],
}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}

EXACT = [
    ("const", {"const": 42}, ["42"], ["43", '"42"']),
    ("const true", {"const": True}, ["true"], ["True", "1"]),
    ("const null", {"const": None}, ["null"], ["None"]),
    ("boolean enum", {"type": "boolean", "enum": [True]}, ["true"], ["false"]),
    ("control characters", TEXT, ['{"text": "a\\tb"}'], ['{"text": "a\tb"}', '{"text": "a\nb"}']),
    ("carriage return", {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}, ['{"a":\r"x"}'], []),
    ("pattern with length", {"type": "string", "pattern": "^a+$", "maxLength": 2}, ['"aa"', '"a"'], ['"aaa"', '""']),
    ("multipleOf", {"type": "integer", "multipleOf": 5}, ["10"], ["7"]),
    ("pattern properties", {**CLOSED, "properties": {"a": {"type": "string"}}, "patternProperties": {"^s_": {"type": "integer"}}}, ['{"s_x": 1}'], ['{"s_x": "1"}', '{"q": 1}']),
    ("escaped unicode", {"enum": ["\u00e9t\u00e9", "\U0001f600"]}, ['"été"', '"😀"'], ['"???"']),
    ("reference into an array", TREE, ['{"tree": {"left": "a", "right": {"left": "b"}}}'], ['{"tree": {"left": 1}}']),
    ("enum behind a reference", {"$ref": "#/$defs/C", "$defs": {"C": {"enum": ["red", "green"]}}}, ['"red"'], ['"blue"', "{}"]),
    ("broken nesting", QUERIES, ['{"queries":["hello"]}'], ['{"queries":["hello","]}']),
    ("anything", {}, ["1", '{"a": [null]}'], ["", "{"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "schema", "good", "bad"), EXACT, ids=[e[0] for e in EXACT])
def test_a_schema_is_exact(name, schema, good, bad, backend, takes):
    compiled = backend.compile(request("json_schema", schema))
    assert [g for g in good if not takes(compiled, g.encode())] == []
    assert [b for b in bad if takes(compiled, b.encode())] == []


REFUSED = [
    (
        "empty enum",
        {"type": "object", "properties": {"x": {"type": "string", "enum": []}}, "required": ["x"]},
        "/properties/x/enum",
    ),
    ("unknown type", {"type": "objekt"}, "/type"),
    ("draft 7 tuple", {"type": "array", "items": [{"type": "integer"}]}, "/items"),
    ("a string as schema", {"type": "object", "properties": {"foo": "bar"}}, "/properties/foo"),
    ("uniqueItems", {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "/uniqueItems"),
    (
        "contains",
        {"type": "object", "properties": {"a": {"type": "array", "contains": {"const": 1}}}},
        "/properties/a/contains",
    ),
    ("if then", {"type": "integer", "if": {"minimum": 3}, "then": {"maximum": 5}}, "/if"),
]


@pytest.mark.parametrize(("name", "schema", "pointer"), REFUSED, ids=[r[0] for r in REFUSED])
def test_a_schema_is_refused_by_pointer(name, schema, pointer, backend):
    with pytest.raises(GrammarError) as refusal:
        backend.compile(request("json_schema", schema))
    assert refusal.value.pointer == pointer


def test_keywords_inside_data_do_not_count(backend, takes):
    schema = {"type": "object", "properties": {"a": {"const": {"uniqueItems": True}, "default": {"contains": 1}}}}
    assert takes(backend.compile(request("json_schema", schema)), b'{"a": {"uniqueItems": true}}')


@pytest.mark.parametrize("text", ["", "{", '"text"', "[]", "12", "[" * 100_000, json.dumps({"enum": ["x" * 300_000]})])
def test_what_is_no_schema_is_refused(text, backend):
    with pytest.raises(GrammarError):
        backend.compile(request("json_schema", text))


@pytest.mark.parametrize("pattern", ["[a-", "(", "a{2,1}", "*a", "\\"])
def test_a_malformed_pattern_is_refused(pattern, backend):
    with pytest.raises(GrammarError):
        backend.compile(request("regex", pattern))


def test_properties_come_in_the_order_of_the_schema(backend, takes):
    names = ["sample_type", "target_species", "specifications", "application"]
    schema = {**CLOSED, "properties": {n: {"type": "string"} for n in names}, "required": names}
    compiled = backend.compile(request("json_schema", schema))
    assert takes(compiled, json.dumps(dict.fromkeys(names, "x")).encode())
    assert not takes(compiled, json.dumps(dict.fromkeys(sorted(names), "x")).encode())


def test_white_space_cannot_run_away(backend, takes):
    for kind, text in (("json_schema", {**CLOSED, "properties": {}}), ("json_object", "")):
        compiled = backend.compile(request(kind, text))
        assert takes(compiled, b"{ }")
        assert not takes(compiled, b"{" + b" " * 40 + b"}")


@pytest.mark.parametrize(
    ("kind", "text", "good", "bad"),
    [
        ("regex", "(yes|no)", ["yes", "no"], ["maybe", "yesno", ""]),
        ("regex", "[0-9]{3}-[0-9]{2}", ["123-45"], ["123-4"]),
        ("choice", '["red", "blue (dark)", "a|b"]', ["red", "blue (dark)", "a|b"], ["a", "blue"]),
        ("ebnf", 'root ::= "yes" | "no"', ["yes"], ["perhaps"]),
        ("json_object", "", ['{"a": [1, 2.5, "x", null]}'], ["[1]", "1"]),
    ],
)
def test_other_kinds(kind, text, good, bad, backend, takes):
    compiled = backend.compile(request(kind, text))
    assert all(takes(compiled, g.encode()) for g in good)
    assert not any(takes(compiled, b.encode()) for b in bad)


def test_special_tokens_are_never_allowed_and_nothing_follows_the_end(backend):
    matcher = backend.compile(request("choice", '["yes"]')).matcher()
    assert not matcher.accept(257)
    assert all(matcher.accept(t) for t in b"yes")
    assert matcher.accept(256)
    assert matcher.finished()
    assert not matcher.accept(ord("x"))


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
HERMES = CallSyntax(begin='<tool_call>\n{"name": "{name}", "arguments": ', end="}\n</tool_call>", separator="\n")
TAGS = CallSyntax(
    begin="<function={name}>\n",
    end="</function>",
    arguments="parameter_tags",
    parameter_begin="<parameter={key}>\n",
    parameter_end="\n</parameter>\n",
)


def test_json_calls_are_held_to_the_family_syntax(backend, takes):
    compiled = backend.compile(tool_call_request(HERMES, [WEATHER]))
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    assert takes(compiled, call.encode())
    assert takes(compiled, f"{call}\n{call}".encode())
    assert not takes(compiled, b"It is sunny.")
    assert not takes(compiled, call.replace("Paris", "").replace('""', "3").encode())
    alone = backend.compile(tool_call_request(HERMES, [WEATHER], parallel=False))
    assert not takes(alone, f"{call}\n{call}".encode())


def test_tagged_calls_are_held_to_the_family_syntax(backend, takes):
    compiled = backend.compile(tool_call_request(TAGS, [WEATHER], parallel=False))
    city = "<parameter=city>\nParis <3\n</parameter>\n"
    assert takes(compiled, f"<function=get_weather>\n{city}</function>".encode())
    assert takes(compiled, f"<function=get_weather>\n{city}<parameter=days>\n3\n</parameter>\n</function>".encode())
    assert not takes(compiled, b"<function=get_weather>\n<parameter=days>\n3\n</parameter>\n</function>")
    assert not takes(
        compiled, f"<function=get_weather>\n{city}<parameter=days>\nsoon\n</parameter>\n</function>".encode()
    )


def test_calls_among_text_are_held_once_they_begin(backend, takes):
    compiled = backend.compile(tool_call_request(HERMES, [WEATHER], required=False))
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    assert takes(compiled, b"It is sunny, 1 < 2.")
    assert takes(compiled, f"Let me look.\n{call}".encode())
    assert not takes(compiled, f"Let me look.\n{call}".replace("city", "town").encode())
    section = CallSyntax(
        section_begin="<|calls|>", begin="<|call|>{name}:{index}<|args|>", end="<|end|>", section_end="<|done|>"
    )
    compiled = backend.compile(tool_call_request(section, [WEATHER], required=False))
    assert takes(compiled, b'Hm.<|calls|><|call|>get_weather:0<|args|>{"city": "x"}<|end|><|done|>')
    assert not takes(compiled, b'Hm.<|calls|><|call|>get_weather:0<|args|>{"days": 1}<|end|><|done|>')


scalar = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 1, "maxLength": 3},
        {"type": "integer"},
        {"type": "integer", "minimum": -3, "maximum": 12},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"enum": ["a", "b", None]},
    ]
)


def objects(inner):
    return st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
        lambda p: {"type": "object", "properties": p, "required": sorted(p)[:1], "additionalProperties": False}
    )


schemas = st.recursive(
    scalar,
    lambda inner: (
        objects(inner)
        | inner.map(lambda s: {"type": "array", "items": s, "minItems": 1, "maxItems": 2})
        | st.lists(inner, min_size=1, max_size=2).map(lambda s: {"anyOf": s})
    ),
    max_leaves=4,
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-20, 20) | st.sampled_from(["", "a", "abcd", "é\n", 1.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(schema=schemas, value=values)
def test_random_plain_schemas_agree_with_a_validator(schema, value, backend):
    compiled = backend.compile(request("json_schema", schema))
    matcher = compiled.matcher()
    taken = all(matcher.accept(t) for t in [*json.dumps(value, ensure_ascii=False).encode(), 256])
    valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert not taken or valid
