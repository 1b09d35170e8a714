"""The families that mark thinking by tags: each is its markers and where it begins when nothing tells.

Sources: the chat templates and model cards of the families named.
"""

from __future__ import annotations

from .tags import TaggedReasoning, Tags

_THINK = Tags(begin="<think>", end="</think>", implied_ends=("<tool_call>",))


class DeepSeekR1(TaggedReasoning):
    """DeepSeek-R1, Step3, Nemotron Nano: thinking from the first token; templates open the tag in the prompt."""

    tags = Tags(begin="<think>", end="</think>", assumed=True)


class DeepSeekV3(TaggedReasoning):
    """DeepSeek V3.1 and V3.2: hybrid; the prompt opens or closes the tag."""

    tags = Tags(begin="<think>", end="</think>", implied_ends=("<｜tool▁calls▁begin｜>", "<｜DSML｜function_calls>"))


class Qwen3(TaggedReasoning):
    """Qwen3 and InternS1: the model opens the tag itself unless the prompt did."""

    tags = _THINK


class Qwen3Thinking(TaggedReasoning):
    """Qwen3-Thinking-2507: thinking from the first token."""

    tags = Tags(begin="<think>", end="</think>", assumed=True, implied_ends=("<tool_call>",))


class Glm45(TaggedReasoning):
    """GLM-4.5 to 4.7."""

    tags = _THINK


class Mimo(TaggedReasoning):
    """MiMo 7B and V2."""

    tags = _THINK


class Olmo3(TaggedReasoning):
    """Olmo 3 Think: the prompt opens the tag."""

    tags = Tags(begin="<think>", end="</think>", implied_ends=("<function_calls>",))


class Kimi(TaggedReasoning):
    """Kimi VL and k1.5."""

    tags = Tags(begin="◁think▷", end="◁/think▷")


class KimiK2(TaggedReasoning):
    """Kimi K2 Thinking."""

    tags = Tags(begin="<think>", end="</think>", implied_ends=("<|tool_calls_section_begin|>",))


class MiniMax(TaggedReasoning):
    """MiniMax M1 and M2: the prompt opens the tag."""

    tags = Tags(begin="<think>", end="</think>", assumed=True, implied_ends=("<minimax:tool_call>",))


class Step3(TaggedReasoning):
    """Step3: thinking from the first token."""

    tags = Tags(begin="<think>", end="</think>", assumed=True, implied_ends=("<｜tool_calls_begin｜>",))


class Nemotron(TaggedReasoning):
    """Nemotron 3: the prompt opens or closes the tag."""

    tags = _THINK


class Magistral(TaggedReasoning):
    """Magistral and Mistral's reasoning models."""

    tags = Tags(begin="[THINK]", end="[/THINK]", implied_ends=("[TOOL_CALLS]",))


class Granite(TaggedReasoning):
    """Granite 3.2: two sentences serve as tags."""

    tags = Tags(begin="Here is my thought process:", end="Here is my response:")


class Gemma4(TaggedReasoning):
    """Gemma 4: a thought channel."""

    tags = Tags(begin="<|channel>thought\n", end="<channel|>", implied_ends=("<|tool_call>",))


class CommandA(TaggedReasoning):
    """Command A Reasoning: thinking and response each between markers of their own."""

    tags = Tags(
        begin="<|START_THINKING|>",
        end="<|END_THINKING|>",
        implied_ends=("<|START_ACTION|>",),
        plain=("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    )


class Apertus(TaggedReasoning):
    """Apertus: thoughts between markers of their own."""

    tags = Tags(begin="<|inner_prefix|>", end="<|inner_suffix|>", implied_ends=("<|tools_prefix|>",))


class Ling3(TaggedReasoning):
    """Ling 3."""

    tags = _THINK


class Hunyuan(TaggedReasoning):
    """Hunyuan A13B: think and answer tags."""

    tags = Tags(begin="<think>", end="</think>", plain=("<answer>\n", "\n</answer>", "<answer>", "</answer>"))
