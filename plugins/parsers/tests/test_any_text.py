"""Whatever a model writes: no parser raises, no cut changes the parse, and without a call no character is lost."""

from __future__ import annotations

import importlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_core.api import ParserSpec
from sgl_core.api.parsers import ParseContext
from sgl_parsers import specs


def load(spec):
    module, attribute = spec.target.split(":")
    return getattr(importlib.import_module(module), attribute)


SPECS = {k: v for k, v in vars(specs).items() if isinstance(v, ParserSpec) and v.available}
TOOLS = {k: load(v) for k, v in SPECS.items() if not k.startswith("R_")}
PARSERS = {k: load(v) for k, v in SPECS.items()}
FRAGMENTS = [
    "<tool_call>", "</tool_call>", "<function=f>", "</function>", "<parameter=a>", "</parameter>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
    '{"name": "f", "arguments": {"a": [1, "x"]}}', '{"name": "f", "arguments": {', '"}', "[f(a=1)]", "[", "]", "{", "}", "(", ")", '"', "\\", ",", ";", ":",
    "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "to=functions.f", "analysis", "final",
    "<|tool_call_begin|>", "functions.f:0", "<|tool_call_argument_begin|>", "{}", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
    "<think>", "</think>", "<|tool_call>", "call:f{", '<|"|>', "<invoke ", 'name="f">', "</invoke>", "<minimax:tool_call>", "text", " ", "\n", "日本", "```json",
    "<|tools_prefix|>", '[{"f": {}}]', "<tool_calls>", "<tool_sep>", "<function name=\"f\">", "<param name=\"a\">", "</param>", "<dots_function_call>",
]  # fmt: skip
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=12).map("".join)


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=60, deadline=None)
@given(text=texts, data=st.data())
def test_any_cut_gives_the_same_parse(name, text, data, parse_pieces):
    whole = parse_pieces(PARSERS[name](ParseContext()), [text])
    borders = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *borders], [*borders, len(text)], strict=True)]
    assert parse_pieces(PARSERS[name](ParseContext()), pieces) == whole


@pytest.mark.parametrize("name", [n for n in TOOLS if n not in ("GPT_OSS", "COMMAND_R")])
@settings(max_examples=60, deadline=None)
@given(text=texts)
def test_text_without_a_call_comes_out_whole(name, text, parse_pieces):
    parsed = parse_pieces(TOOLS[name](ParseContext()), [text])
    if not parsed.calls:
        assert parsed.content == text


@pytest.mark.parametrize("name", TOOLS)
@settings(max_examples=60, deadline=None)
@given(text=texts)
def test_short_calls_are_always_valid_json(name, text, parse_pieces):
    parsed = parse_pieces(TOOLS[name](ParseContext()), [text])
    assert all(isinstance(arguments, dict) for _, arguments in parsed.calls)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(
    arguments=st.dictionaries(st.text(), json_values, max_size=4),
    indent=st.sampled_from([None, 2]),
    size=st.integers(1, 9),
)
def test_json_arguments_survive(arguments, indent, size, parse_pieces):
    call = json.dumps({"name": "f", "arguments": arguments}, indent=indent, ensure_ascii=False)
    text = f"<tool_call>\n{call}\n</tool_call>"
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    parsed = parse_pieces(TOOLS["HERMES"](ParseContext()), pieces)
    assert parsed.calls == [("f", arguments)]
    assert parsed.content == ""
