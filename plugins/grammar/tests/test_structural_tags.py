"""Structural tags in both forms and in every backend: what stands in a tag is held, and a schema in it is never weakened."""

from __future__ import annotations

import json

import pytest

from sgl_core.api.grammar import GrammarError
from sgl_core.api.sampling import GrammarRequest

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
OLD = {
    "type": "structural_tag",
    "structures": [{"begin": "<function=get>", "schema": CITY, "end": "</function>"}],
    "triggers": ["<function="],
}


def tagged(content, **fields):
    tag = {"type": "tag", "begin": "<a>", "content": content, "end": "</a>"}
    return {
        "type": "structural_tag",
        "format": {"type": "triggered_tags", "triggers": ["<a>"], "tags": [tag], **fields},
    }


def wanted(tag):
    return GrammarRequest(kind="structural_tag", text=json.dumps(tag))


def test_the_older_form(backend, takes):
    compiled = backend.compile(wanted(OLD))
    call = '<function=get>{"city": "Ulm"}</function>'
    assert takes(compiled, b"no call at all")
    assert takes(compiled, f"first {call} then {call} end".encode())
    assert not takes(compiled, b"x <function=get>{}</function>")
    assert not takes(compiled, b"x <function=put>")


def test_a_schema_in_a_tag_is_held_whole(backend, takes):
    compiled = backend.compile(
        wanted(tagged({"type": "json_schema", "json_schema": {"type": "integer", "multipleOf": 5}}))
    )
    assert takes(compiled, b"x <a>10</a>")
    assert not takes(compiled, b"x <a>11</a>")


@pytest.mark.parametrize(
    ("format_", "good", "bad"),
    [
        ({"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "</t>"}, "<t>so</t>", "<t>so</t>x"),
        (
            {
                "type": "sequence",
                "elements": [
                    {"type": "const_string", "value": "a:"},
                    {
                        "type": "or",
                        "elements": [{"type": "regex", "pattern": "[0-9]+"}, {"type": "const_string", "value": "no"}],
                    },
                ],
            },
            "a:17",
            "a:x",
        ),
        (
            {
                "type": "tags_with_separator",
                "tags": [{"type": "tag", "begin": "[", "content": {"type": "regex", "pattern": "[a-z]"}, "end": "]"}],
                "separator": ", ",
                "at_least_one": True,
            },
            "[a], [b]",
            "[a][b]",
        ),
    ],
)
def test_formats(backend, takes, format_, good, bad):
    compiled = backend.compile(wanted({"type": "structural_tag", "format": format_}))
    assert takes(compiled, good.encode())
    assert not takes(compiled, bad.encode())


@pytest.mark.parametrize(
    ("tag", "pointer"),
    [
        ({"type": "structural_tag"}, ""),
        (tagged({"type": "json_schema", "json_schema": {"type": "array", "uniqueItems": True}}), ""),
        (tagged({"type": "json_schema", "json_schema": {"type": "objekt"}}), "/format/tags/0/content/json_schema/type"),
    ],
)
def test_what_cannot_be_held_is_refused(backend, tag, pointer):
    with pytest.raises(GrammarError) as refusal:
        backend.compile(wanted(tag))
    assert refusal.value.pointer == pointer
