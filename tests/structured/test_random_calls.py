"""Random answers under each family's call grammar, read by the family's own parser: every call fits its tool's schema.

The model is a dice over the allowed bytes, which is worse at tool calls than any model.
"""

from __future__ import annotations

import json
import random
from functools import cache

import jsonschema
import numpy as np
import pytest

from sgl_core.api.grammar import tool_call_request
from sgl_core.api.parsers import CallArguments, CallStart, ParseContext, TextDelta
from sgl_core.registry import Registries

EOS = 256
LIKELY = b'ab1 <\n{["nul/-:.@Ttruefalse'


class Bytes:
    """Token i is byte i; one end of sequence."""

    size, eos_token_ids, special_token_ids, tokenizer_json = 257, (EOS,), frozenset({EOS}), ""

    def token_bytes(self, token_id):
        return bytes([token_id]) if token_id < 256 else b""


STRINGS = [
    {},
    {"minLength": 2, "maxLength": 6},
    {"maxLength": 3},
    {"pattern": "^[A-Z][a-z]{1,6}$"},
    {"pattern": r"\d{2}|x/y"},
    {"pattern": r"^(a|b)+\.$", "maxLength": 5},
    {"enum": ["red", "dark blue", "</parameter> x", "7"]},
    {"const": "é\n"},
    {"format": "date"},
    {"format": "uuid"},
    {"format": "ipv4"},
    {"format": "email", "maxLength": 30},
]
PARAMETERS = [
    *({"type": "string", **limits} for limits in STRINGS),
    {"type": ["string", "null"], "minLength": 1},
    {"type": ["integer", "string"], "maximum": 5, "pattern": "^[0-9a-z]{1,3}$"},
    {"anyOf": [{"type": "string", "maxLength": 4}, {"type": "array", "items": {"type": "integer"}, "maxItems": 2}]},
    {"enum": ["1", 1, "true", True, None, "word"]},
    {"$ref": "#/$defs/code"},
    {"type": "integer", "minimum": 3, "maximum": 99},
    {"type": "boolean"},
    {"type": "object", "properties": {"k": {"enum": ["v"]}}, "required": ["k"], "additionalProperties": False},
    {"pattern": "^ok?$", "type": "string", "maxLength": 2},
]
DEFS = {"code": {"type": "string", "pattern": "^[0-9]{2}$"}}


def tool(rng):
    chosen = rng.sample(PARAMETERS, rng.randint(1, 3))
    properties = {f"p{i}": schema for i, schema in enumerate(chosen)}
    required = [name for name in properties if rng.random() < 0.7]
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
        "$defs": DEFS,
    }
    return {"type": "function", "function": {"name": rng.choice(["look_up", "f"]), "parameters": parameters}}


@cache
def registries():
    return Registries.discover()


@cache
def backend():
    return registries().grammars.load("xgrammar")(Bytes())


def families():
    specs = registries().tool_parsers.specs()
    loaded = {spec.name: registries().tool_parsers.load(spec.name) for spec in specs if spec.available and spec.target}
    return [name for name, parser in loaded.items() if parser.call_syntax is not None]


def roll(compiled, rng, ends, most=1500):
    """A random answer, or None where the dice did not come to an end."""
    matcher, out = compiled.matcher(), bytearray()
    mask = np.zeros((1, 9), np.int32)
    aim = b""
    while len(out) < most:
        if matcher.finished():
            return bytes(out).decode()
        matcher.fill_mask(mask, 0)
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")[: Bytes.size]).tolist()
        if not aim and rng.random() < 0.2:
            aim = rng.choice(ends).encode()
        if aim and aim[0] in allowed:
            token, aim = aim[0], aim[1:]
        else:
            aim = b""
            likely = [t for t in allowed if t in LIKELY]
            token = rng.choice(likely if likely and rng.random() < 0.9 else allowed)
        assert matcher.accept(token)
        if token == EOS:
            return bytes(out).decode()
        out.append(token)
    return None


def read(parser, text, tools):
    reader = parser(ParseContext(tools=tools))
    calls, content = [], ""
    for event in reader.feed(text) + reader.finish():
        if isinstance(event, CallStart):
            calls.append([event.name, ""])
        elif isinstance(event, CallArguments):
            calls[event.index][1] += event.text
        elif isinstance(event, TextDelta):
            content += event.text
    return calls, content


@pytest.mark.parametrize("family", families())
def test_every_call_is_read_back_and_fits(family):
    parser = registries().tool_parsers.load(family)
    syntax = parser.call_syntax
    ends = ['"', "}", "]", syntax.parameter_end or "}", syntax.parameter_end or '"}', syntax.end or "}"]
    rng, done = random.Random(family), 0
    for _ in range(40):
        tools = [tool(rng)]
        compiled = backend().compile(tool_call_request(syntax, tools, parallel=False))
        text = roll(compiled, rng, ends)
        if text is None:
            continue
        calls, content = read(parser, text, tools)
        assert len(calls) == 1, text
        assert not content.strip(), text
        (name, arguments), function = calls[0], tools[0]["function"]
        assert name == function["name"]
        value = json.loads(arguments)
        checker = jsonschema.Draft202012Validator(
            function["parameters"], format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
        )
        problems = [f"{e.message} in {text!r}" for e in checker.iter_errors(value)]
        assert not problems, problems
        done += 1
    assert done >= 10
