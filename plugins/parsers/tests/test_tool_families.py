"""Example outputs of every family: calls, content and ids, whole and in any cut."""

from __future__ import annotations

import pytest

from sgl_core.api.parsers import ParseContext
from sgl_parsers.tools import (
    apertus,
    bracket,
    deepseek,
    gemma4,
    glm,
    harmony,
    hermes,
    hunyuan,
    invoke_tags,
    json_lists,
    kimi_k2,
    llama3,
    mistral,
    pythonic,
    qwen3_coder,
)


def tool(name, **properties):
    return {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {k: {"type": v} for k, v in properties.items()}},
        },
    }


TOOLS = (
    tool("get_weather", city="string", location="string", days="integer"),
    tool("get_item", id="string"),
    tool("WebSearch", query="string", max_results="number", exclude_domains="array"),
    tool("log_event", day="integer"),
    tool("write", path="string", content="string"),
    tool("read_file", path="string"),
)
PARIS = ("get_weather", {"city": "Paris"})
BIG = "x = 1\n" * 4000

CASES = {
    "hermes": (
        hermes.Hermes,
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
        "",
        [PARIS],
    ),
    "hermes text around": (
        hermes.Hermes,
        'Let me look.\n<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>\n',
        "Let me look.",
        [PARIS],
    ),
    "hermes two": (
        hermes.Hermes,
        '<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>\n<tool_call>\n{"arguments": {"x": [1, {"y": null}]}, "name": "b"}\n</tool_call>',
        "",
        [("a", {}), ("b", {"x": [1, {"y": None}]})],
    ),
    "hermes brace in a string": (
        hermes.Hermes,
        '<tool_call>\n{"name": "run", "arguments": {"command": "mkdir -p test/{test1,test2"}}\n</tool_call>',
        "",
        [("run", {"command": "mkdir -p test/{test1,test2"})],
    ),
    "hermes nested": (
        hermes.Hermes,
        '<tool_call>{"name":"report","arguments":{"query":"DeepSeek-R1-0528","style":"研究报告","outline":[{"h2":"一、版本迭代背景","guideline":"阐述..."},{"h2":"二","guideline":"..."}]}}</tool_call>',
        "",
        [
            (
                "report",
                {
                    "query": "DeepSeek-R1-0528",
                    "style": "研究报告",
                    "outline": [{"h2": "一、版本迭代背景", "guideline": "阐述..."}, {"h2": "二", "guideline": "..."}],
                },
            )
        ],
    ),
    "hermes malformed": (hermes.Hermes, 'a <tool_call> is a tag {"x": 1}', 'a <tool_call> is a tag {"x": 1}', []),
    "hermes cut": (
        hermes.Hermes,
        '<tool_call>{"name": "f", "arguments": {"a": 1',
        '<tool_call>{"name": "f", "arguments": {"a": 1',
        [],
    ),
    "hermes malformed then good": (
        hermes.Hermes,
        'use <tool_call> like <tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>',
        "use <tool_call> like",
        [PARIS],
    ),
    "hermes second malformed": (
        hermes.Hermes,
        '<tool_call>{"name": "a", "arguments": {}}</tool_call><tool_call>{"name": "b", "arguments": {oops}}</tool_call>',
        '<tool_call>{"name": "b", "arguments": {oops}}</tool_call>',
        [("a", {})],
    ),
    "hermes function tags": (
        hermes.Hermes,
        "<tool_call>\n<function=Read>\n<parameter=file_path>/data/test.txt</parameter>\n</function>\n</tool_call>",
        "",
        [("Read", {"file_path": "/data/test.txt"})],
    ),
    "llama3 semicolon": (
        llama3.Llama3,
        '<|python_tag|>{"name":"get_weather","arguments":{"location":"NYC; USA"}};{"name":"get_time","arguments":{"timezone":"EST"}}',
        "",
        [("get_weather", {"location": "NYC; USA"}), ("get_time", {"timezone": "EST"})],
    ),
    "llama3 deep": (
        llama3.Llama3,
        '{"name": "predict", "parameters": {"record": {"a": {"b": {"c": {"d": "Unknown"}}}}}}',
        "",
        [("predict", {"record": {"a": {"b": {"c": {"d": "Unknown"}}}}})],
    ),
    "llama3 plain json": (llama3.Llama3, '{"answer": 42}', '{"answer": 42}', []),
    "llama3 function tag": (llama3.Llama3, '<function=get_weather>{"city": "Paris"}</function>', "", [PARIS]),
    "llama4 wrapper": (
        pythonic.Pythonic,
        '<|python_start|>{"name": "brave_web_search", "parameters": {"query": "latest news"}}<|python_end|>',
        "",
        [("brave_web_search", {"query": "latest news"})],
    ),
    "llama4 json": (
        pythonic.Pythonic,
        '{"type": "function", "name": "Bash", "parameters": {"command": "echo hello", "timeout": 12000}}',
        "",
        [("Bash", {"command": "echo hello", "timeout": 12000})],
    ),
    "pythonic nested": (
        pythonic.Pythonic,
        '[plan(steps=[["a", 1], ["b", 2]], opts={"x": [1, 2]})]',
        "",
        [("plan", {"steps": [["a", 1], ["b", 2]], "opts": {"x": [1, 2]}})],
    ),
    "pythonic two": (
        pythonic.Pythonic,
        "[get_weather('Paris'), now(utc=True, tz=None, n=-1)]",
        "",
        [PARIS, ("now", {"utc": True, "tz": None, "n": -1})],
    ),
    "pythonic not a call": (pythonic.Pythonic, "[1, 2, 3] is a list", "[1, 2, 3] is a list", []),
    "olmo3": (
        pythonic.Olmo3,
        '<function_calls>\nget_weather(city="Paris")\na(b=")")\n</function_calls>',
        "",
        [PARIS, ("a", {"b": ")"})],
    ),
    "pythonic reserved words": (
        pythonic.Pythonic,
        '[f(from=1, class="a, b(", in=[1, 2])]',
        "",
        [("f", {"from": 1, "class": "a, b(", "in": [1, 2]})],
    ),
    "pythonic unclosed": (pythonic.Pythonic, "[f(a=1), g(b=2)", "", [("f", {"a": 1}), ("g", {"b": 2})]),
    "lfm2": (pythonic.Lfm2, '<|tool_call_start|>[get_weather(city="Paris")]<|tool_call_end|>', "", [PARIS]),
    "gigachat3": (
        json_lists.GigaChat3,
        'function call<|role_sep|>\n{"name": "get_weather", "arguments": {"city": "Paris"}}',
        "",
        [PARIS],
    ),
    "gemma3": (pythonic.Gemma3, 'Sure.\n```tool_code\nget_weather(city="Paris")\n```', "Sure.", [PARIS]),
    "mistral list": (
        mistral.Mistral,
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "b", "arguments": {}}]',
        "",
        [PARIS, ("b", {})],
    ),
    "mistral nested": (
        mistral.Mistral,
        '[TOOL_CALLS]get_weather{"place": {"city": "Paris", "opts": {"unit": "C"}}}',
        "",
        [("get_weather", {"place": {"city": "Paris", "opts": {"unit": "C"}}})],
    ),
    "mistral args": (
        mistral.Mistral,
        '[TOOL_CALLS]read[ARGS]{"file_path": "/data/foo.txt"}[TOOL_CALLS]b[CALL_ID]123[ARGS]{}',
        "",
        [("read", {"file_path": "/data/foo.txt"}), ("b", {})],
    ),
    "bracket": (bracket.Bracket, '[Calling tool: run({"code":"f({a:[1]})]"})]', "", [("run", {"code": "f({a:[1]})]"})]),
    "bracket malformed": (bracket.Bracket, '[Calling tool: run({"code": 1}', '[Calling tool: run({"code": 1}', []),
    "deepseekv3 two": (
        deepseek.DeepSeekV3,
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_current_weather\n```json\n{"location": "Tokyo"}\n```<｜tool▁call▁end｜>\n'
        '<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_current_weather\n```json\n{"location": "Paris"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        "",
        [("get_current_weather", {"location": "Tokyo"}), ("get_current_weather", {"location": "Paris"})],
    ),
    "deepseekv31": (
        deepseek.DeepSeekV31,
        'ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        "ok",
        [PARIS],
    ),
    "deepseekv32": (
        deepseek.DeepSeekV32,
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
        "",
        [("get_weather", {"city": "Paris", "days": 3})],
    ),
    "kimi two": (
        kimi_k2.KimiK2,
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"lat":34}<|tool_call_end|>'
        '<|tool_call_begin|>functions.get_news:1<|tool_call_argument_begin|>{"q":"x"}<|tool_call_end|><|tool_calls_section_end|>',
        "",
        [("get_weather", {"lat": 34}), ("get_news", {"q": "x"})],
    ),
    "kimi sanitised": (
        kimi_k2.KimiK2,
        '<|tool_call_begin|>functions_read_file_3<|tool_call_argument_begin|>{"path":"a"}<|tool_call_end|>',
        "",
        [("read_file", {"path": "a"})],
    ),
    "kimi hyphen and newline": (
        kimi_k2.KimiK2,
        "<|tool_call_begin|>functions.get-weather:0\n<|tool_call_argument_begin|>{}<|tool_call_end|>",
        "",
        [("get-weather", {})],
    ),
    "glm string": (
        glm.Glm,
        "<tool_call>get_item\n<arg_key>id</arg_key>\n<arg_value>123_456</arg_value>\n</tool_call>",
        "",
        [("get_item", {"id": "123_456"})],
    ),
    "glm typed": (
        glm.Glm,
        "<tool_call>WebSearch\n<arg_key>query</arg_key>\n<arg_value>ByteDance inference chips</arg_value>\n<arg_key>max_results</arg_key>\n"
        "<arg_value>10</arg_value>\n<arg_key>exclude_domains</arg_key>\n<arg_value>[]</arg_value>\n</tool_call>",
        "",
        [("WebSearch", {"query": "ByteDance inference chips", "max_results": 10, "exclude_domains": []})],
    ),
    "glm closing tag as data": (
        glm.Glm,
        "<tool_call>write\n<arg_key>content</arg_key>\n<arg_value>use </tool_call> and </arg_value> tags</arg_value>\n</tool_call>",
        "",
        [("write", {"content": "use </tool_call> and </arg_value> tags"})],
    ),
    "glm47 one line": (glm.Glm, "<tool_call>now</tool_call>", "", [("now", {})]),
    "qwen3_coder": (
        qwen3_coder.Qwen3Coder,
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        "",
        [("get_weather", {"city": "Paris", "days": 3})],
    ),
    "qwen3_coder misfit": (
        qwen3_coder.Qwen3Coder,
        "<tool_call><function=log_event><parameter=day>2026-01-15</parameter></function></tool_call>",
        "",
        [("log_event", {"day": "2026-01-15"})],
    ),
    "qwen3_coder missing close": (
        qwen3_coder.Qwen3Coder,
        f"<tool_call><function=write><parameter=path>\na.txt\n<parameter=content>\n{BIG}</parameter></function></tool_call>",
        "",
        [("write", {"path": "a.txt", "content": BIG[:-1]})],
    ),
    "minimax": (
        invoke_tags.MiniMaxM2,
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n<parameter name="days">2</parameter>\n</invoke>\n</minimax:tool_call>',
        "",
        [("get_weather", {"city": "Paris", "days": 2})],
    ),
    "step3": (
        invoke_tags.Step3,
        '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather"><steptml:parameter name="city">Paris</steptml:parameter>'
        "</steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
        "",
        [PARIS],
    ),
    "apertus": (
        apertus.Apertus,
        'Hm. <|tools_prefix|>[{"get_weather": {"city": "Paris"}}, {"a": {}}]<|tools_suffix|>',
        "Hm.",
        [PARIS, ("a", {})],
    ),
    "apertus malformed": (apertus.Apertus, '<|tools_prefix|>["get_weather"]', '<|tools_prefix|>["get_weather"]', []),
    "hunyuan": (
        hunyuan.Hunyuan,
        "<tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n"
        "</tool_call>\n<tool_call>now<tool_sep></tool_call>\n</tool_calls>",
        "",
        [("get_weather", {"city": "Paris", "days": 3}), ("now", {})],
    ),
    "hunyuan suffix": (
        hunyuan.Hunyuan,
        "<tool_calls:opensource><tool_call:opensource>get_item<tool_sep:opensource><arg_key:opensource>id</arg_key:opensource>"
        "<arg_value:opensource>1</arg_value:opensource></tool_call:opensource></tool_calls:opensource>",
        "",
        [("get_item", {"id": "1"})],
    ),
    "hunyuan a13b": (
        hunyuan.Hunyuan,
        '<tool_calls>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</tool_calls>',
        "",
        [PARIS],
    ),
    "dots": (
        invoke_tags.Dots,
        '<dots_function_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>\n</dots_function_call>',
        "",
        [PARIS],
    ),
    "dots json": (
        invoke_tags.Dots,
        '<dots_function_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</dots_function_call>',
        "",
        [PARIS],
    ),
    "minicpm5": (
        invoke_tags.MiniCpm5,
        'Ok <function name="get_weather"><param name="city">Paris</param></function>\n<function name="get_item"><param name="id">7</param></function> so',
        "Okso",
        [PARIS, ("get_item", {"id": "7"})],
    ),
    "gemma4": (
        gemma4.Gemma4,
        '<|tool_call>call:send{arguments:{message:<|"|>How are you?<|"|>},to:<|"|>bob<|"|>,n:[1,2.5,true]}<tool_call|>',
        "",
        [("send", {"arguments": {"message": "How are you?"}, "to": "bob", "n": [1, 2.5, True]})],
    ),
    "functiongemma": (
        gemma4.FunctionGemma,
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>",
        "",
        [PARIS],
    ),
    "phi4": (
        json_lists.Phi4,
        '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]<|/tool_call|>',
        "",
        [PARIS],
    ),
    "granite": (
        json_lists.Granite,
        '<|tool_call|> [{"name": "get_weather", "arguments": {"city": "Paris"}}]',
        "",
        [PARIS],
    ),
    "internlm": (
        json_lists.InternLm,
        'Ok.<|action_start|><|plugin|>\n{"name": "get_weather", "parameters": {"city": "Paris"}}<|action_end|>',
        "Ok.",
        [PARIS],
    ),
    "command-r": (
        json_lists.CommandR,
        '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Paris"}}\n]<|END_ACTION|>',
        "",
        [PARIS],
    ),
    "command-r answer": (json_lists.CommandR, "<|START_RESPONSE|>Hi there.<|END_RESPONSE|>", "Hi there.", []),
    "xlam": (json_lists.Xlam, '[{"name": "get_weather", "arguments": {"city": "Paris"}}]', "", [PARIS]),
    "xlam fence": (
        json_lists.Xlam,
        '```json\n[{"name": "get_weather", "arguments": {"city": "Paris"}}]\n```',
        "",
        [PARIS],
    ),
    "harmony call": (
        harmony.Harmony,
        '<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary to=functions.web-browsing <|constrain|>json<|message|>{"city": "Paris"}<|call|>',
        "",
        [("web-browsing", {"city": "Paris"})],
    ),
    "harmony odd headers": (
        harmony.Harmony,
        "<|channel|>commentary?<|message|>Hi<|end|><|channel|>––commentary<|message|> you<|end|>",
        "Hi you",
        [],
    ),
    "harmony other recipient": (
        harmony.Harmony,
        "<|channel|>commentary to=assistant<|channel|>commentary<|message|>kept<|end|>",
        "kept",
        [],
    ),
    "harmony constrain response": (
        harmony.Harmony,
        "<|channel|>final <|constrain|>response<|message|>text<|return|>",
        "text",
        [],
    ),
    "harmony cut": (harmony.Harmony, "<|channel|>final", "", []),
    "harmony junk": (harmony.Harmony, "<|channel|>final<|message|>Hi<|return|><|end|>", "Hi", []),
}


@pytest.mark.parametrize("name", CASES)
def test_example(name, every_cut):
    factory, text, content, calls = CASES[name]
    parsed = every_cut(factory, text, ParseContext(tools=TOOLS))
    assert parsed.calls == calls
    assert parsed.content == content


def test_harmony_header_without_message(every_cut):
    parsed = every_cut(
        harmony.Harmony,
        "<|channel|>analysis We should answer<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>",
    )
    assert (parsed.reasoning, parsed.content) == ("We should answer", "Hi")


def test_ids_written_by_the_model_are_kept(every_cut):
    parsed = every_cut(
        kimi_k2.KimiK2, "<|tool_call_begin|>functions.f:7<|tool_call_argument_begin|>{}<|tool_call_end|>"
    )
    assert parsed.ids == ["functions.f:7"]


def test_the_given_chunks_of_a_mistral_call():
    parser = mistral.Mistral(ParseContext())
    events = []
    for piece in ("[TOOL_CALLS]", "read", "[ARGS]", '{"file_path"', ":", '"/data/foo.txt"', "}"):
        events += parser.feed(piece)
    assert [type(e).__name__ for e in events] == ["CallStart", "CallArguments"]


def test_a_long_string_streams_in_pieces():
    parser = qwen3_coder.Qwen3Coder(ParseContext(tools=TOOLS))
    text = f"<tool_call><function=write><parameter=content>\n{BIG}\n</parameter></function></tool_call>"
    events = [e for i in range(0, len(text), 50) for e in parser.feed(text[i : i + 50])]
    assert len(events) > 100


@pytest.mark.parametrize("value", ["001", "true", "1e5", "null", "[]", '"quoted"'])
def test_a_declared_string_stays_a_string(value, every_cut):
    text = f"<tool_call>get_item<arg_key>id</arg_key><arg_value>{value}</arg_value></tool_call>"
    assert every_cut(glm.Glm, text, ParseContext(tools=TOOLS)).calls == [("get_item", {"id": value})]
