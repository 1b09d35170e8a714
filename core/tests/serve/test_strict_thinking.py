"""--enable-strict-thinking in the front: which requests are held while they think, and where it cannot be served."""

from __future__ import annotations

from typing import Any

import pytest

from sgl_core.api.parsers import ParseContext
from sgl_core.config import ConfigError
from sgl_core.serve.build import check_strict_thinking

pytestmark = pytest.mark.anyio
CHAT = "/v1/chat/completions"


class Family:
    """A reasoning parser that reads nothing; ``opened`` says whether the prompt opened the thinking."""

    reasoning_begin, reasoning_end, excluded = "<think>", "</think>", ("<think>",)

    def __init__(self, opened: bool | None) -> None:
        self.opened = opened

    def thinks(self, context: ParseContext) -> bool | None:
        return self.opened

    def __call__(self, context: ParseContext) -> Any:
        return type("Plain", (), {"feed": lambda self, text: [], "finish": lambda self: []})()


@pytest.mark.parametrize(
    ("opened", "strict", "held"),
    [
        (True, True, ("thinking", True, False)),
        (None, True, ("thinking", False, True)),
        (False, True, None),
        (True, False, None),
    ],
)
async def test_who_is_held(serve: Any, opened: bool | None, strict: bool, held: tuple[str, bool, bool] | None) -> None:
    async with serve(reasoning_parser=Family(opened)) as api:
        api.service.strict_thinking = strict
        answer = await api.post(CHAT, {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2})
        assert answer.status_code == 200
        grammar = api.channel.generated()[-1].grammar
    assert (grammar and (grammar.kind, grammar.after_reasoning, grammar.may_reason)) == held


def test_it_needs_a_family_that_says_what_is_excluded() -> None:
    check_strict_thinking(Family(True), {"name": "x"})
    with pytest.raises(ConfigError, match="needs a reasoning parser"):
        check_strict_thinking(None, None)
    with pytest.raises(ConfigError, match="gpt-oss"):
        check_strict_thinking(object(), {"name": "gpt-oss"})
