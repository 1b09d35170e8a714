"""Chat templates: field cases 8, 10, 11, 163, 164 and what templates of the field expect to find."""

from __future__ import annotations

from typing import Any

import pytest

from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.template_env import make_environment, wants_parts
from sgl_core.serve.core.templates import ChatTemplate, TemplateError, choose_template
from sgl_core.serve.testing import CHATML, byte_tokenizer

TOOLS_TEMPLATE = """
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for m in messages %}
<{{ m.role }}>{{ m.content }}
{%- for call in m.tool_calls or [] %}[{{ call.function.name }} {{ call.function.arguments | tojson }}]{% endfor %}
{%- endfor %}"""
CALLS = [
    {"id": "call_123", "type": "function", "function": {"name": "get_weather", "arguments": '{"location":"Paris"}'}}
]


def render(source: str, messages: list[dict[str, Any]], **options: Any) -> str:
    return ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"}).render(messages, **options)


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.field_case("10")
def test_case_10_null_content_beside_tool_calls_and_the_tools_answer() -> None:
    messages = [
        user("What's the weather?"),
        {"role": "assistant", "content": None, "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "call_123", "content": "Sunny"},
    ]
    text = render(TOOLS_TEMPLATE, messages)
    assert '[get_weather {"location": "Paris"}]' in text
    assert "<tool>Sunny" in text


@pytest.mark.field_case("11")
def test_case_11_a_missing_content_key_reads_as_null() -> None:
    missing = {"role": "assistant", "tool_calls": CALLS}
    assert render(TOOLS_TEMPLATE, [missing]) == render(TOOLS_TEMPLATE, [{**missing, "content": None}])


def test_arguments_as_text_for_templates_that_join_them() -> None:
    source = (
        "{% for m in messages %}{% for c in m.tool_calls %}{{ 'call ' + c.function.arguments }}{% endfor %}{% endfor %}"
    )
    assert render(source, [{"role": "assistant", "tool_calls": CALLS}]) == 'call {"location": "Paris"}'


def test_arguments_that_are_not_json_stay_as_they_are() -> None:
    call = {"function": {"name": "f", "arguments": "{broken"}}
    assert '[f "{broken"]' in render(TOOLS_TEMPLATE, [{"role": "assistant", "tool_calls": [call]}])


@pytest.mark.field_case("163")
@pytest.mark.parametrize("messages", [[{"role": "system", "content": "x"}, user("Hello !!.")], [user("a"), user("b")]])
def test_case_163_the_templates_refusal_is_a_400_with_its_words(messages: list[dict[str, Any]]) -> None:
    source = (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% endfor %}"
    )
    with pytest.raises(RequestError, match="Conversation roles must alternate") as error:
        render(source, messages)
    assert error.value.status == 400


@pytest.mark.field_case("164")
@pytest.mark.parametrize("final", ["OK!\n", "OK! ", "  OK", ""])
def test_case_164_the_final_message_goes_on_exactly(final: str) -> None:
    source = CHATML.replace("message['content']", "message['content'] | trim")
    messages = [user("Hello, tell me a joke."), {"role": "assistant", "content": final}]
    text = render(source, messages, continue_final_message=True, add_generation_prompt=False)
    assert text.endswith("<|im_start|>assistant\n" + final)
    with pytest.raises(RequestError, match="continue_final_message"):
        render(source, messages, continue_final_message=True, add_generation_prompt=True)
    with pytest.raises(RequestError, match="last message"):
        render(source, messages[:1], continue_final_message=True, add_generation_prompt=False)


def test_lists_of_parts_are_joined_for_templates_that_want_text() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert "one\ntwo<|im_end|>" in render(CHATML, [user(parts)])


def test_lists_of_parts_stay_for_templates_that_walk_them() -> None:
    source = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}({{ p.text }}){% endfor %}{% endif %}{% endfor %}"
    assert render(source, [user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])]) == "(a)(b)"
    assert render(source, [user("plain")]) == "plain"


def test_content_in_a_variable_is_seen_through() -> None:
    walk = (
        "{% for m in messages %}{% set content = m['content'] %}{% for p in content %}{{ p }}{% endfor %}{% endfor %}"
    )
    assert wants_parts(make_environment(), walk)
    assert not wants_parts(make_environment(), CHATML)


def test_an_image_is_refused_with_its_place() -> None:
    with pytest.raises(RequestError, match=r"messages\[0\]\.content\[0\].*image_url"):
        render(CHATML, [user([{"type": "image_url", "image_url": {"url": "http://x"}}])])


def test_the_environment_of_the_field() -> None:
    assert render("{{ {'a': '<é>'} | tojson }}", [user("x")]) == '{"a": "<é>"}'
    assert render("{{ strftime_now('%Y') }}", [user("x")]).isdigit()
    assert (
        render(
            "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content }}{% endfor %}",
            [user("a"), user("b")],
        )
        == "b"
    )
    assert render("{% generation %}{{ bos_token }}{% endgeneration %}", [user("x")]) == "<s>"
    assert render("a\n  {%- if true %}\nb\n{% endif %}\nc", [user("x")]) == "ab\nc"


def test_variables_reach_the_template_and_cannot_replace_messages() -> None:
    assert render("{{ enable_thinking }}", [user("x")], variables={"enable_thinking": False}) == "False"
    with pytest.raises(RequestError, match="chat_template_kwargs"):
        render("{{ messages }}", [user("x")], variables={"messages": []})


def test_the_sandbox_holds() -> None:
    with pytest.raises(RequestError, match="cannot render"):
        render("{{ messages.__class__.__mro__[1].__subclasses__() }}", [user("x")])
    with pytest.raises(RequestError, match="cannot render"):
        render("{{ messages.append(1) }}", [user("x")])


def test_a_broken_template_is_told_at_start() -> None:
    with pytest.raises(TemplateError, match="line 1"):
        ChatTemplate("{% if %}", {})


def test_where_a_template_comes_from(tmp_path) -> None:
    tokenizer = byte_tokenizer()
    assert choose_template(tokenizer, None, None) == CHATML
    assert choose_template(tokenizer, "{{ messages }}", None) == "{{ messages }}"
    file = tmp_path / "t.jinja"
    file.write_text("from a file", encoding="utf-8")
    assert choose_template(tokenizer, str(file), None) == "from a file"
    with pytest.raises(TemplateError, match="no such file"):
        choose_template(tokenizer, "nowhere.jinja", None)
    with pytest.raises(TemplateError, match="tool_use"):
        choose_template(tokenizer, None, "tool_use")
