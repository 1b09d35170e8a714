"""The parser seam through the whole serving path: reasoning, tool calls, streams equal to plain answers, case 49."""

from __future__ import annotations

from typing import Any

import pytest

from sgl_core.api.parsers import CallArguments, CallStart, ParseContext, ParseEvent, ReasoningDelta, TextDelta
from sgl_core.serve.testing import says

pytestmark = pytest.mark.anyio
CHAT = "/v1/chat/completions"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


class Marked:
    """Text between ``open`` and ``close`` is one kind of event; a marker may be cut anywhere."""

    def __init__(self, open_: str, close: str) -> None:
        self.open, self.close = open_, close
        self.inside = False
        self.held = ""

    def feed(self, delta: str) -> list[ParseEvent]:
        self.held += delta
        events: list[ParseEvent] = []
        while True:
            marker = self.close if self.inside else self.open
            at = self.held.find(marker)
            if at < 0:
                keep = next((k for k in range(len(marker) - 1, 0, -1) if self.held.endswith(marker[:k])), 0)
                cut = len(self.held) - keep
                events += self.event(self.held[:cut])
                self.held = self.held[cut:]
                return events
            events += self.event(self.held[:at])
            self.held = self.held[at + len(marker) :]
            self.inside = not self.inside
            events += self.turn()

    def finish(self) -> list[ParseEvent]:
        held, self.held = self.held, ""
        return self.event(held)

    def turn(self) -> list[ParseEvent]:
        return []

    def event(self, text: str) -> list[ParseEvent]:
        if not text:
            return []
        return [ReasoningDelta(text) if self.inside else TextDelta(text)]


class Thinks(Marked):
    def __init__(self, context: ParseContext) -> None:
        super().__init__("<think>", "</think>")


class Calls(Marked):
    def __init__(self, context: ParseContext) -> None:
        super().__init__("<call>", "</call>")
        self.count = -1

    def turn(self) -> list[ParseEvent]:
        if not self.inside:
            return []
        self.count += 1
        return [CallStart(self.count, "f")]

    def event(self, text: str) -> list[ParseEvent]:
        if not text:
            return []
        return [CallArguments(self.count, text)] if self.inside else [TextDelta(text)]


class Drops(Marked):
    """Removes a control token from the text."""

    def __init__(self, context: ParseContext) -> None:
        super().__init__("<|sep|>", "<|never|>")

    def event(self, text: str) -> list[ParseEvent]:
        return [TextDelta(text)] if text and not self.inside else []


def join(events: list[Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"content": "", "reasoning": "", "calls": [], "finish": None}
    for event in events:
        choice = event["choices"][0]
        delta = choice["delta"]
        out["content"] += delta.get("content") or ""
        out["reasoning"] += delta.get("reasoning_content") or ""
        assert isinstance(delta.get("tool_calls", []), list)
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["index"] == len(out["calls"])
                out["calls"].append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
            out["calls"][call["index"]]["arguments"] += call["function"]["arguments"]
        out["finish"] = choice["finish_reason"] or out["finish"]
    return out


STORY = '<think>Let me see.</think>Fine.<call>{"a": 1}</call><call>{"b": "<"}</call>'


@pytest.mark.field_case("34", "35")
@pytest.mark.parametrize("chunk", [1, 4, 1000])
@pytest.mark.parametrize("logprobs", [False, True])
async def test_reasoning_and_calls(serve, tokenizer, chunk: int, logprobs: bool) -> None:
    script = says(tokenizer.encode(STORY, False), eos=tokenizer.eos_token_ids[0], chunk=chunk)
    async with serve(script, reasoning_parser=Thinks, tool_parser=Calls) as api:
        body = {"messages": [{"role": "user", "content": "hi"}], "tools": [TOOL], "logprobs": logprobs}
        plain = (await api.post(CHAT, body)).json()
        message = plain["choices"][0]["message"]
        assert message["content"] == "Fine."
        assert message["reasoning_content"] == "Let me see."
        assert [call["function"] for call in message["tool_calls"]] == [
            {"name": "f", "arguments": '{"a": 1}'},
            {"name": "f", "arguments": '{"b": "<"}'},
        ]
        ids = [call["id"] for call in message["tool_calls"]]
        assert len(set(ids)) == 2
        assert all(call_id.startswith("call_") for call_id in ids)
        assert plain["choices"][0]["finish_reason"] == "tool_calls"
        joined = join(await api.events(CHAT, body))
        assert (joined["content"], joined["reasoning"], joined["finish"]) == ("Fine.", "Let me see.", "tool_calls")
        assert [call["arguments"] for call in joined["calls"]] == ['{"a": 1}', '{"b": "<"}']
        whole = {**body, "stream_reasoning": False}
        reasoned = [e for e in await api.events(CHAT, whole) if e["choices"][0]["delta"].get("reasoning_content")]
        assert [e["choices"][0]["delta"]["reasoning_content"] for e in reasoned] == ["Let me see."]


async def test_one_call_where_parallel_calls_are_off(serve, tokenizer) -> None:
    script = says(tokenizer.encode(STORY, False), eos=tokenizer.eos_token_ids[0])
    async with serve(script, tool_parser=Calls) as api:
        body = {"messages": [{"role": "user", "content": "hi"}], "tools": [TOOL], "parallel_tool_calls": False}
        plain = (await api.post(CHAT, body)).json()
        assert len(plain["choices"][0]["message"]["tool_calls"]) == 1
        assert len(join(await api.events(CHAT, body))["calls"]) == 1


async def test_without_tools_or_separation_the_text_stays_whole(serve, tokenizer) -> None:
    script = says(tokenizer.encode(STORY, False), eos=tokenizer.eos_token_ids[0])
    async with serve(script, reasoning_parser=Thinks, tool_parser=Calls) as api:
        body = {"messages": [{"role": "user", "content": "hi"}], "separate_reasoning": False, "max_tokens": 300}
        choice = (await api.post(CHAT, body)).json()["choices"][0]
        assert choice["message"]["content"] == STORY
        assert choice["message"]["tool_calls"] is None
        assert choice["finish_reason"] == "stop"


@pytest.mark.field_case("37")
async def test_no_call_is_no_tool_calls_reason(serve, tokenizer) -> None:
    script = says(tokenizer.encode("Just text.", False), eos=tokenizer.eos_token_ids[0])
    async with serve(script, tool_parser=Calls) as api:
        body = {"messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]}
        choice = (await api.post(CHAT, body)).json()["choices"][0]
        assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", "Just text.")


@pytest.mark.field_case("49")
async def test_case_49_the_flush_at_the_end_passes_the_parsers(serve, tokenizer) -> None:
    script = says(tokenizer.encode("answer<|sep|>", False), eos=tokenizer.eos_token_ids[0])
    async with serve(script, tool_parser=Drops) as api:
        body = {"messages": [{"role": "user", "content": "hi"}], "tools": [TOOL], "stop": ["zzzzzzzz", "ep|>x"]}
        assert join(await api.events(CHAT, body))["content"] == "answer"
        assert (await api.post(CHAT, body)).json()["choices"][0]["message"]["content"] == "answer"
