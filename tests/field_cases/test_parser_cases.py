"""Cases of the areas C1, C2 and D, each with the output that was reported: whole, and streamed in every kind of cut."""

from __future__ import annotations

import json
import random

import pytest

from sgl_core.api.parsers import CallArguments, CallStart, ParseContext, ReasoningDelta, TextDelta
from sgl_core.registry import Registries
from sgl_core.serve.core.parsing import ParserChain
from sgl_core.serve.core.request import ParseSettings

REGISTRIES = Registries.discover()


def tool(name, **types):
    properties = {key: {"type": kind} for key, kind in types.items()}
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


TOOLS = (
    tool("get_item", id="string"),
    tool("WebSearch", query="string", max_results="number", exclude_domains="array"),
    tool("note", text="string"),
    tool("log_event", day="integer"),
    tool("write", path="string", content="string"),
    tool("read_file", path="string"),
    tool("get_weather", location="string"),
    tool("Read", file_path="string"),
)


def chain(tools=None, reasoning=None, **context):
    load = REGISTRIES.tool_parsers.load, REGISTRIES.reasoning_parsers.load
    return ParserChain(
        ParseSettings(
            context=ParseContext(tools=TOOLS, **context),
            tools=load[0](tools) if tools else None,
            reasoning=load[1](reasoning) if reasoning else None,
        )
    )


def cuts(text):
    for size in (len(text) or 1, 1, 2, 3, 7):
        yield [text[i : i + size] for i in range(0, len(text), size)]
    for seed in range(4):
        rng = random.Random(seed)
        borders = sorted(rng.sample(range(len(text) + 1), min(len(text), rng.randint(1, 12))))
        yield [text[a:b] for a, b in zip([0, *borders], [*borders, len(text)], strict=True)]


def joined(parser, pieces):
    """(reasoning, content, [(name, arguments)]) of a text in pieces."""
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish()
    calls = []
    for event in events:
        if isinstance(event, CallStart):
            assert event.index == len(calls)
            assert event.name
            calls.append([event.name, ""])
        elif isinstance(event, CallArguments):
            calls[event.index][1] += event.text
    content = "".join(e.text for e in events if isinstance(e, TextDelta))
    thought = "".join(e.text for e in events if isinstance(e, ReasoningDelta))
    return thought, content, [(name, json.loads(arguments)) for name, arguments in calls]


def read(text, tools=None, reasoning=None, **context):
    first, *others = [joined(chain(tools, reasoning, **context), pieces) for pieces in cuts(text)]
    assert all(other == first for other in others)
    return first


def calls(family, text):
    """The calls of an answer that is nothing but calls."""
    thought, content, found = read(text, family)
    assert (thought, content) == ("", "")
    return found


@pytest.mark.field_case("67")
def test_case_67_an_unbalanced_brace_in_a_string():
    text = '<tool_call>\n{"name": "run", "arguments": {"command": "mkdir -p test/{test1,test2"}}\n</tool_call>'
    assert calls("hermes", text) == [("run", {"command": "mkdir -p test/{test1,test2"})]


@pytest.mark.field_case("68")
def test_case_68_nested_arguments_keep_their_last_brace():
    arguments = {
        "query": "DeepSeek-R1-0528",
        "title": "...",
        "style": "研究报告",
        "outline": [{"h2": "一、版本迭代背景", "guideline": "阐述..."}, {"h2": "二、核心技术突破", "guideline": "..."}],
    }
    body = json.dumps({"name": "report", "arguments": arguments}, ensure_ascii=False)
    assert calls("hermes", f"<tool_call>\n{body}\n</tool_call>") == [("report", arguments)]


@pytest.mark.field_case("70")
def test_case_70_calls_parted_by_a_semicolon():
    text = '<|python_tag|>{"name":"get_weather","arguments":{"location":"NYC; USA"}};{"name":"get_time","arguments":{"timezone":"EST"}}'
    assert calls("llama3", text) == [("get_weather", {"location": "NYC; USA"}), ("get_time", {"timezone": "EST"})]


@pytest.mark.field_case("71")
@pytest.mark.parametrize(
    "record",
    [
        {"record": {"months_as_customer": "19", "age": "42", "insured_zip": "Unknown"}},
        {"a": {"b": {"c": {"d": {"e": []}}}}},
    ],
)
def test_case_71_deep_arguments(record):
    text = json.dumps({"name": "predict_claim_fraud", "parameters": record})
    assert calls("llama3", text) == [("predict_claim_fraud", record)]


@pytest.mark.field_case("73")
def test_case_73_a_wrapper_round_json():
    text = '<|python_start|>{"name": "brave_web_search", "parameters": {"query": "latest news"}}<|python_end|>'
    assert calls("pythonic", text) == [("brave_web_search", {"query": "latest news"})]


@pytest.mark.field_case("74")
def test_case_74_json_where_python_was_expected():
    text = '{"type": "function", "name": "Bash", "parameters": {"command": "echo hello", "timeout": 12000}}'
    assert calls("pythonic", text) == [("Bash", {"command": "echo hello", "timeout": 12000})]


@pytest.mark.field_case("76")
def test_case_76_nested_lists_and_a_missing_bracket():
    text = '[plan(steps=[["a", 1], ["b", 2]], opts={"x": [1, 2]})]'
    plan = ("plan", {"steps": [["a", 1], ["b", 2]], "opts": {"x": [1, 2]}})
    assert calls("pythonic", text) == [plan]
    assert calls("pythonic", text[:-1]) == [plan]


@pytest.mark.field_case("77")
def test_case_77_a_nested_object_after_the_name():
    place = {"place": {"city": "Paris", "opts": {"unit": "C"}}}
    assert calls("mistral", f"[TOOL_CALLS]get_weather{json.dumps(place)}") == [("get_weather", place)]


@pytest.mark.field_case("79")
def test_case_79_the_reported_chunks():
    pieces = ["[TOOL_CALLS]", "read", "[ARGS]", '{"file_path"', ":", '"/data/foo.txt"', "}"]
    assert joined(chain("mistral"), pieces) == ("", "", [("read", {"file_path": "/data/foo.txt"})])
    assert calls("mistral", "".join(pieces)) == [("read", {"file_path": "/data/foo.txt"})]


@pytest.mark.field_case("80")
@pytest.mark.parametrize("family", ["hermes", "qwen3_coder"])
def test_case_80_no_markup_as_text(family):
    text = "<tool_call>\n<function=Read>\n<parameter=file_path>/data/test.txt</parameter>\n</function>\n</tool_call>"
    assert calls(family, text) == [("Read", {"file_path": "/data/test.txt"})]


@pytest.mark.field_case("82")
def test_case_82_an_end_mark_in_a_string():
    assert calls("bracket", '[Calling tool: run({"code":"f({a:[1]})]"})]') == [("run", {"code": "f({a:[1]})]"})]
    malformed = '[Calling tool: run({"code":"f})]'
    assert read(malformed, "bracket") == ("", malformed, [])


@pytest.mark.field_case("83")
@pytest.mark.parametrize(("family", "reasoning"), [("qwen3_coder", "qwen3"), ("qwen3_coder", "deepseek-r1")])
def test_case_83_a_call_after_thinking(family, reasoning):
    text = "<think>need tool</think>\n\n<tool_call>\n<function=get_weather>\n<parameter=location>\nBoston\n</parameter>\n</function>\n</tool_call>"
    assert read(text, family, reasoning) == ("need tool", "", [("get_weather", {"location": "Boston"})])


@pytest.mark.field_case("85")
def test_case_85_two_calls_of_one_section():
    one = '<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_current_weather\n```json\n{{"location": "{}"}}\n```<｜tool▁call▁end｜>'
    text = f"<｜tool▁calls▁begin｜>{one.format('Tokyo')}\n{one.format('Paris')}<｜tool▁calls▁end｜>"
    assert calls("deepseekv3", text) == [("get_current_weather", {"location": c}) for c in ("Tokyo", "Paris")]


def kimi(call_id, arguments):
    return f"<|tool_call_begin|>{call_id}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


@pytest.mark.field_case("86")
def test_case_86_calls_without_space_between():
    both = kimi("functions.get_weather:0", '{"lat":34}') + kimi("functions.get_news:1", '{"q":"x"}')
    text = f"<|tool_calls_section_begin|>{both}<|tool_calls_section_end|>"
    assert calls("kimi_k2", text) == [("get_weather", {"lat": 34}), ("get_news", {"q": "x"})]


@pytest.mark.field_case("88")
def test_case_88_a_sanitised_id():
    assert calls("kimi_k2", kimi("functions_read_file_3", '{"path":"a"}')) == [("read_file", {"path": "a"})]


@pytest.mark.field_case("89")
@pytest.mark.parametrize("call_id", ["functions.get-weather:0", "functions.get-weather:0\n"])
def test_case_89_hyphen_and_newline_in_an_id(call_id):
    assert calls("kimi_k2", kimi(call_id, "{}")) == [("get-weather", {})]


def glm(name, **values):
    pairs = "".join(f"<arg_key>{k}</arg_key>\n<arg_value>{v}</arg_value>\n" for k, v in values.items())
    return f"<tool_call>{name}\n{pairs}</tool_call>"


@pytest.mark.field_case("91")
@pytest.mark.parametrize("value", ["123_456", "001", "true", "1e5"])
def test_case_91_a_string_stays_a_string(value):
    assert calls("glm", glm("get_item", id=value)) == [("get_item", {"id": value})]


@pytest.mark.field_case("92")
def test_case_92_values_by_their_types():
    text = glm("WebSearch", query="ByteDance inference chips", max_results=10, exclude_domains="[]")
    wanted = {"query": "ByteDance inference chips", "max_results": 10, "exclude_domains": []}
    assert calls("glm", text) == [("WebSearch", wanted)]


@pytest.mark.field_case("94")
def test_case_94_a_closing_tag_as_data():
    value = "use </tool_call> and </arg_value> tags"
    assert calls("glm", glm("note", text=value)) == [("note", {"text": value})]


@pytest.mark.field_case("95")
def test_case_95_a_value_that_is_not_of_its_type():
    text = "<tool_call><function=log_event><parameter=day>2026-01-15</parameter></function></tool_call>"
    assert calls("qwen3_coder", text) == [("log_event", {"day": "2026-01-15"})]


@pytest.mark.field_case("97")
def test_case_97_a_missing_end_tag_and_a_long_text():
    long = "".join(f"line {i}: <b>\n" for i in range(1500))
    text = f"<tool_call><function=write><parameter=path>\na.txt\n<parameter=content>\n{long}</parameter></function></tool_call>"
    (call,) = calls("qwen3_coder", text)
    assert call == ("write", {"path": "a.txt", "content": long[:-1]})
    parser = chain("qwen3_coder")
    deltas = [e for i in range(0, len(text), 40) for e in parser.feed(text[i : i + 40]) if isinstance(e, CallArguments)]
    assert len(deltas) > 100
    assert "</parameter" not in "".join(e.text for e in deltas)


@pytest.mark.field_case("98")
@pytest.mark.parametrize(
    ("text", "content", "found"),
    [
        ("<|channel|>commentary?<|message|>Hi<|end|>", "Hi", []),
        ("<|channel|>––commentary<|message|>Hi<|end|>", "Hi", []),
        (
            '<|channel|>commentary to=functions.web-browsing <|constrain|>json<|message|>{"q": "x"}<|call|>',
            "",
            [("web-browsing", {"q": "x"})],
        ),
        ("<|channel|>commentary to=assistant<|channel|>commentary<|message|>kept<|end|>", "kept", []),
        ("<|channel|>final <|constrain|>response<|message|>text<|return|>", "text", []),
    ],
)
def test_case_98_odd_channel_headers(text, content, found):
    assert read(text, "gpt-oss", "gpt-oss") == ("", content, found)


@pytest.mark.field_case("100")
def test_case_100_no_message_before_the_end():
    text = "<|channel|>analysis We should answer<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>"
    assert read(text, "gpt-oss", "gpt-oss") == ("We should answer", "Hi", [])
    assert read("<|channel|>final", "gpt-oss", "gpt-oss") == ("", "", [])


@pytest.mark.field_case("101")
def test_case_101_nested_arguments():
    text = '<|tool_call>call:send{arguments:{message:<|"|>How are you?<|"|>},to:<|"|>bob<|"|>}<tool_call|>'
    assert calls("gemma4", text) == [("send", {"arguments": {"message": "How are you?"}, "to": "bob"})]


@pytest.mark.field_case("103")
@pytest.mark.parametrize("family", ["deepseek-r1", "qwen3", "qwen3-thinking", "step3", "minimax"])
def test_case_103_neither_tag(family):
    assert read('{"answer": 4}', None, family, constrained=True) == ("", '{"answer": 4}', [])
    opened = {"prompt_tail": "<|assistant|>\n<think>\n"}
    assert read("First I look at", None, family, **opened) == ("First I look at", "", [])


@pytest.mark.field_case("104")
@pytest.mark.parametrize("family", ["deepseek-r1", "deepseek-v3", "qwen3", "glm45", "mimo", "nemotron_3"])
@pytest.mark.parametrize("tail", ["assistant\n", "assistant\n<think>\n\n</think>\n\n"])
def test_case_104_thinking_switched_off(family, tail):
    assert read("你好!", None, family, prompt_tail=tail, thinking=False) == ("", "你好!", [])


@pytest.mark.field_case("106")
def test_case_106_no_empty_lines_before_the_content():
    pieces = ["\n", "Alright", ".\n", "</think>", "\n\n", "Hi"]
    opened = {"prompt_tail": "<think>"}
    assert joined(chain(reasoning="deepseek-r1", **opened), pieces) == ("Alright.", "Hi", [])
    assert read("".join(pieces), None, "deepseek-r1", **opened) == ("Alright.", "Hi", [])
