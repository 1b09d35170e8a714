"""Parameters of tag syntaxes: which texts a schema allows, in whole patterns, and what is refused by name."""

from __future__ import annotations

import re

import pytest

from sgl_core.api.grammar import GrammarError, tool_call_request
from sgl_core.api.parsers import CallSyntax
from sgl_grammar.schema.pattern import FORMATS, whole

TAGS = CallSyntax(
    begin="<function={name}>\n",
    end="</function>",
    arguments="parameter_tags",
    parameter_begin="<parameter={key}>\n",
    parameter_end="\n</parameter>\n",
)


def tool(parameters):
    return {"type": "function", "function": {"name": "f", "parameters": parameters}}


def one(schema, **beside):
    return tool({"type": "object", "properties": {"p": schema}, "required": ["p"], **beside})


@pytest.fixture(scope="module")
def takes_text(takes, byte_vocabulary):
    from sgl_grammar import backends

    backend = backends.xgrammar(byte_vocabulary)

    def check(schema, *texts, **beside):
        compiled = backend.compile(tool_call_request(TAGS, [one(schema, **beside)], parallel=False))
        return [
            takes(compiled, f"<function=f>\n<parameter=p>\n{text}\n</parameter>\n</function>".encode())
            for text in texts
        ]

    return check


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"maxLength": 3}, ["", "äöü", "a\nb"], ["abcd"]),
        ({"minLength": 2}, ["ab"], ["", "a"]),
        ({"pattern": "^[A-Z]+$", "maxLength": 2}, ["A", "AB"], ["", "a", "ABC", "AB\n"]),
        ({"pattern": "b|^c"}, ["abc", "cx"], ["xc", ""]),
        ({"pattern": r"\d\.\d"}, ["v1.2"], ["1x2", "٣.٣"]),
        ({"pattern": r"^a/b\/c$"}, ["a/b/c"], ["a-b-c"]),
        ({"enum": ["red", "a.b"]}, ["red", "a.b"], ["axb", "re", "redd"]),
        ({"const": "x y"}, ["x y"], ["x"]),
        ({"enum": ["long", "x"], "maxLength": 2}, ["x"], ["long"]),
        ({"format": "date"}, ["2024-02-28"], ["2024-02-30", "x"]),
        ({"format": "ipv4"}, ["127.0.0.1"], ["256.0.0.1"]),
        ({}, ["a <b> c", "</div>"], ["x</parameter>y", "a\n<parameter=q>\nb"]),
    ],
)
def test_texts_are_held(takes_text, schema, good, bad):
    assert takes_text({"type": "string", **schema}, *good, *bad) == [True] * len(good) + [False] * len(bad)


def test_a_value_of_several_types_is_what_the_parser_reads(takes_text):
    assert takes_text({"type": ["string", "null"]}, "null", "word", "NULL", "12") == [True, True, False, True]
    either = {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer", "maximum": 5}]}
    assert takes_text(either, "abc", "5", "6", "abcd") == [True, True, False, False]
    assert takes_text({"enum": ["1", 1, "one"]}, "1", "one", "2") == [True, True, False]
    assert takes_text({"$ref": "#/$defs/c"}, "ab", "b", **{"$defs": {"c": {"type": "string", "pattern": "^a"}}}) == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"type": "string", "format": "regex"}, "format regex"),
        ({"type": "string", "pattern": "^a(?=b)"}, "looks around"),
        ({"type": "string", "pattern": r"a\b"}, r"\b"),
        ({"type": "string", "pattern": "(^a|b)c"}, "anchor"),
        ({"type": "string", "not": {"const": "a"}}, "not"),
        ({"type": "string", "minLength": 5000}, "minLength"),
        ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 2}]}, "oneOf"),
        (False, "no value"),
    ],
)
def test_what_cannot_be_held_is_refused_by_name(byte_vocabulary, schema, named):
    from sgl_grammar import backends

    with pytest.raises(GrammarError, match=re.escape(named)) as refusal:
        backends.llguidance(byte_vocabulary).compile(tool_call_request(TAGS, [one(schema)]))
    assert "parameter p" in str(refusal.value)


@pytest.mark.parametrize("beside", [{"minProperties": 3}, {"required": ["q"]}, {"anyOf": [{"required": ["p"]}]}])
def test_keywords_beside_the_properties_are_refused(byte_vocabulary, beside):
    from sgl_grammar import backends

    with pytest.raises(GrammarError, match="the parameters of f cannot"):
        backends.llguidance(byte_vocabulary).compile(
            tool_call_request(TAGS, [tool({**one({})["function"]["parameters"], **beside})])
        )


@pytest.mark.parametrize(
    "pattern", ["^ab?$", "a", "x|y$", "^(?:foo|bar)[0-9]{2}$", r"^[\w.]+@x$", r"\$", r"^\u0041", "[^a]b"]
)
def test_whole_means_what_a_search_means(pattern):
    rust = whole(pattern).replace("(?s:.*)", "[\\s\\S]*")
    python = re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: re.escape(chr(int(m[1], 16))), rust)
    python = re.sub(r"\\u\{([0-9a-f]+)\}", lambda m: chr(int(m[1], 16)), python)
    for text in ("", "a", "ab", "abb", "x", "xy", "yx", "foo12", "bar1", "fo.o@x", "a$", "Ab", "cb"):
        assert bool(re.fullmatch(python, text)) == bool(re.search(pattern, text, re.ASCII)), text


def test_formats_are_well_formed():
    for name, text in {
        "uuid": "12345678-1234-1234-1234-123456789abc",
        "email": "a.b@c.de",
        "time": "12:00:59Z",
    }.items():
        assert re.fullmatch(FORMATS[name], text)
    assert not re.fullmatch(FORMATS["date"], "2023-04-31")
