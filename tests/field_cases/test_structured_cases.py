"""Cases of area E that a grammar alone decides: every backend takes exactly what the reports call right, byte by byte."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sgl_core.api.grammar import GrammarError
from sgl_core.api.sampling import GrammarRequest
from sgl_core.registry import Registries
from sgl_core.serve.core.constraint import constraint
from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.request import ModelCard

EOS, SPECIAL = 256, 257
CLOSED = {"type": "object", "additionalProperties": False}


class Bytes:
    """Token i is byte i, then an end of sequence and a special token; 258 is one token for the end of a list of texts."""

    size, eos_token_ids, special_token_ids, tokenizer_json = 288, (EOS,), frozenset({EOS, SPECIAL}), ""

    def token_bytes(self, token_id):
        if token_id == 258:
            return b'","]'
        return bytes([token_id]) if token_id < 256 else b""


@pytest.fixture(scope="module", params=["xgrammar", "llguidance", "outlines"])
def backend(request):
    return Registries.discover().grammars.load(request.param)(Bytes())


@pytest.fixture
def takes(backend):
    """``takes(schema, text or tokens)``: whether masks and matcher let it through, an end included."""

    def check(schema, text):
        matcher = backend.compile(GrammarRequest(kind="json_schema", text=json.dumps(schema))).matcher()
        mask = np.zeros((1, Bytes.size // 32), np.int32)
        for token in [*(text.encode() if isinstance(text, str) else text), EOS]:
            if matcher.finished() and token == EOS:
                return True
            matcher.fill_mask(mask, 0)
            if not int(mask[0, token >> 5]) >> (token & 31) & 1:
                return False
            assert matcher.accept(token)
        return True

    return check


def refused(backend, schema):
    with pytest.raises(GrammarError) as refusal:
        backend.compile(GrammarRequest(kind="json_schema", text=json.dumps(schema)))
    return refusal.value.pointer


@pytest.mark.field_case("112")
def test_case_112_no_backend():
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "pattern": "^\\w+$"}, "population": {"type": "integer"}},
    }
    with pytest.raises(RequestError, match="--grammar-backend") as refusal:
        constraint(ModelCard(name="m"), response_format={"type": "json_schema", "json_schema": {"schema": schema}})
    assert refusal.value.status == 400


@pytest.mark.field_case("113")
def test_case_113_an_empty_enum(backend):
    schema = {"type": "object", "properties": {"x": {"type": "string", "enum": []}}, "required": ["x"]}
    assert refused(backend, schema) == "/properties/x/enum"


@pytest.mark.field_case("115")
def test_case_115_raw_control_characters(takes):
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    assert not takes(schema, '{"text": "\tab char is illegal here"}')
    assert takes(schema, '{"text": "\\tab char is legal here"}')


@pytest.mark.field_case("116")
def test_case_116_carriage_return(takes):
    assert takes({**CLOSED, "properties": {"a": {"type": "string"}}, "required": ["a"]}, '{"a":\r"x"}')


@pytest.mark.field_case("118")
def test_case_118_pattern_with_length(takes):
    schema = {"type": "string", "pattern": "^a+$", "maxLength": 2}
    assert [takes(schema, f'"{"a" * count}"') for count in (1, 2, 3)] == [True, True, False]
    mail = {"type": "string", "format": "email", "maxLength": 10}
    assert [takes(mail, f'"{text}"') for text in ("a@b.de", "abcdefg@b.de")] == [True, False]


@pytest.mark.field_case("119")
def test_case_119_keywords_that_are_not_served(backend, takes):
    assert takes({"type": "integer", "multipleOf": 5}, "15")
    assert not takes({"type": "integer", "multipleOf": 5}, "14")
    assert refused(backend, {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}) == "/uniqueItems"
    assert refused(backend, {"type": "array", "contains": {"const": 1}}) == "/contains"
    assert refused(backend, {"type": "integer", "if": {"minimum": 3}, "then": {"maximum": 5}}) == "/if"
    assert takes({"enum": ["uniqueItems"], "default": {"contains": 1}, "examples": [{"if": 1}]}, '"uniqueItems"')


@pytest.mark.field_case("121")
def test_case_121_properties_by_pattern(backend, takes):
    schema = {
        **CLOSED,
        "properties": {
            "score": {"type": "integer", "multipleOf": 5},
            "tags": {"type": "array", "items": {"type": "string", "minLength": 10, "maxLength": 20}},
        },
        "required": ["score", "tags"],
        "patternProperties": {"^score$": {"type": "integer"}},
    }
    try:
        backend.compile(GrammarRequest(kind="json_schema", text=json.dumps(schema)))
    except GrammarError as refusal:
        assert refusal.pointer.endswith("patternProperties")  # noqa: PT017 (a conforming object, or a refusal)
    else:
        assert takes(schema, '{"score": 10, "tags": ["ten letters"]}')
        assert not takes(schema, '{"score": 11, "tags": []}')


@pytest.mark.field_case("122")
def test_case_122_properties_in_order(takes):
    kind = {"$ref": "#/$defs/kind"}
    properties = {"sample_type": kind, "target_species": {"type": "string"}, "specifications": {"type": "string"}}
    schema = {**CLOSED, "properties": properties, "required": [*properties], "$defs": {"kind": {"enum": ["x", "y"]}}}
    assert takes(schema, '{"sample_type": "x", "target_species": "", "specifications": ""}')
    assert not takes(schema, '{"sample_type": "x", "specifications": "", "target_species": ""}')


@pytest.mark.field_case("124")
@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"const": 42}, "42", '"42"'),
        ({"const": True}, "true", "True"),
        ({"const": None}, "null", "None"),
        ({"type": "boolean", "enum": [True]}, "true", "false"),
    ],
)
def test_case_124_scalars(takes, schema, good, bad):
    assert takes(schema, good)
    assert not takes(schema, bad)


@pytest.mark.field_case("125")
def test_case_125_escapes_in_the_schema(takes):
    schema = json.loads(r'{"enum": ["\u00e9t\u00e9", "\ud83d\ude00"]}')
    assert takes(schema, '"été"')
    assert takes(schema, '"😀"')
    assert not takes(schema, '"?t?"')


@pytest.mark.field_case("127")
def test_case_127_a_reference_into_a_list(takes):
    left = {"anyOf": [{"type": "string"}, {"$ref": "#/properties/tree"}]}
    right = {"anyOf": [{"$ref": "#/properties/tree/properties/left/anyOf/0"}, {"$ref": "#/properties/tree"}]}
    tree = {**CLOSED, "properties": {"left": left, "right": right}}
    schema = {**CLOSED, "properties": {"tree": tree}, "required": ["tree"]}
    assert takes(schema, '{"tree": {"left": {"left": "a"}, "right": "b"}}')
    assert not takes(schema, '{"tree": {"left": "a", "right": 1}}')


@pytest.mark.field_case("128")
def test_case_128_an_enum_behind_a_reference(takes):
    schema = {"$ref": "#/$defs/C", "$defs": {"C": {"enum": ["red", "green"]}}}
    assert [takes(schema, text) for text in ('"red"', '"green"', '"blue"', "{}")] == [True, True, False, False]


@pytest.mark.field_case("130")
def test_case_130_special_tokens_stand_for_no_text(backend):
    compiled = backend.compile(GrammarRequest(kind="ebnf", text='root ::= "yes" | "no"'))
    matcher, mask = compiled.matcher(), np.zeros((1, Bytes.size // 32), np.int32)
    for token in b"yes":
        matcher.fill_mask(mask, 0)
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()
        assert token in allowed
        assert max(allowed) < 256
        assert matcher.accept(token)


@pytest.mark.field_case("131")
def test_case_131_one_token_of_several_bytes(takes):
    schema = {
        **CLOSED,
        "properties": {"queries": {"type": "array", "items": {"type": "string"}}},
        "required": ["queries"],
    }
    assert not takes(schema, '{"queries":["hello","]}')
    assert not takes(schema, [*b'{"queries":["hello', 258, *b"}"])
    assert takes(schema, '{"queries":["hello",""]}')
