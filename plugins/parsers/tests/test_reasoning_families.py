"""Where thinking begins and ends for every family, from tags, prompt and grammar, in any cut."""

from __future__ import annotations

import pytest

from sgl_core.api.parsers import ParseContext
from sgl_parsers.reasoning import families
from sgl_parsers.reasoning.tags import TaggedReasoning

FAMILIES = [
    f
    for f in vars(families).values()
    if isinstance(f, type) and issubclass(f, TaggedReasoning) and f is not TaggedReasoning
]


@pytest.mark.parametrize("family", FAMILIES)
def test_tags_in_the_answer(family, every_cut):
    tags = family.tags
    parsed = every_cut(
        family, f"{tags.begin}\nFirst, look.\n{tags.end}\n\nIt is 4.", ParseContext(prompt_tail="assistant\n")
    )
    assert (parsed.reasoning, parsed.content) == ("First, look.", "It is 4.")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_prompt_opened_the_tag(family, every_cut):
    tags = family.tags
    context = ParseContext(prompt_tail=f"assistant\n{tags.begin}\n")
    parsed = every_cut(family, f"First.{tags.end}\n\nIt is 4.", context)
    assert (parsed.reasoning, parsed.content) == ("First.", "It is 4.")
    cut = every_cut(family, "First, I thi", context)
    assert (cut.reasoning, cut.content) == ("First, I thi", "")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("how", [{"thinking": False}, {"constrained": True}, {"prompt_tail": "assistant\n"}])
def test_no_thinking(family, how, every_cut):
    parsed = every_cut(family, '{"answer": 4}', ParseContext(**how))
    assert (parsed.reasoning, parsed.content) == ("", '{"answer": 4}')


@pytest.mark.parametrize("family", FAMILIES)
def test_the_prompt_closed_the_tag(family, every_cut):
    tags = family.tags
    parsed = every_cut(family, "你好!", ParseContext(prompt_tail=f"assistant\n{tags.begin}\n\n{tags.end}\n\n"))
    assert (parsed.reasoning, parsed.content) == ("", "你好!")


def test_thinking_is_assumed_when_nothing_tells(every_cut):
    assert every_cut(families.DeepSeekR1, "Hmm.\n</think>\n\nHi").reasoning == "Hmm."
    assert every_cut(families.Qwen3, "Hi").content == "Hi"


def test_a_tool_call_ends_thinking(every_cut):
    parsed = every_cut(families.Qwen3, "<think>need it <tool_call>{}", ParseContext())
    assert (parsed.reasoning, parsed.content) == ("need it", "<tool_call>{}")


def test_the_markers_around_an_answer_are_dropped(every_cut):
    text = "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>"
    parsed = every_cut(families.CommandA, text)
    assert (parsed.reasoning, parsed.content) == ("a", "b")


@pytest.mark.parametrize("family", FAMILIES)
def test_who_decides_on_thinking(family):
    tags = family.tags
    assert (family.reasoning_begin, family.reasoning_end) == (tags.begin, tags.end)
    assert family.thinks(ParseContext(prompt_tail=f"assistant\n{tags.begin}")) is True
    assert family.thinks(ParseContext(prompt_tail=f"assistant\n{tags.begin}\n\n{tags.end}\n\n")) is False
    assert family.thinks(ParseContext(prompt_tail="assistant\n", thinking=False)) is False
    assert family.thinks(ParseContext(prompt_tail="assistant\n", constrained=True)) is None
