"""``custom_logit_processor`` on every route that generates: by name, as a serialized class, refused."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

pytestmark = pytest.mark.anyio
INSTALLED = {"ban": "ban", "Qwen3ThinkingBudgetLogitProcessor": "qwen3_thinking_budget"}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
ROUTES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", CHAT),
    ("/v1/completions", {"prompt": "Hi"}),
    ("/generate", {"text": "Hi"}),
    ("/v1/responses", {"input": "Hi"}),
]


def by_name(module: str, name: str) -> str:
    """What dill writes of a class that can be imported: two texts and an instruction to look them up."""
    parts = b"\x80\x04" + b"".join(b"\x8c" + bytes([len(t)]) + t.encode() + b"\x94" for t in (module, name))
    return json.dumps({"callable": (parts + b"\x93\x94.").hex()})


SERIALIZED = json.dumps({"callable": pickle.dumps([1, 2]).hex()})


@pytest.mark.parametrize(("path", "body"), ROUTES, ids=[path for path, _ in ROUTES])
async def test_names_are_served_and_classes_need_the_flag(serve, path: str, body: dict[str, Any]) -> None:
    async with serve(card={"logit_processors": INSTALLED}) as api:
        params = {"custom_params": {"token_ids": [1]}}
        extra = {"sampling_params": params} if path == "/generate" else params
        response = await api.post(path, {**body, **extra, "custom_logit_processor": "ban"})
        assert response.status_code == 200, response.text
        sent = api.channel.generated()[-1]
        assert sent.logit_processor == "ban"
        assert sent.sampling.custom_params == {"token_ids": [1]}
        for value in ("", None):
            await api.post(path, {**body, "custom_logit_processor": value})
            assert api.channel.generated()[-1].logit_processor is None
        for value, message in (
            (SERIALIZED, "--enable-custom-logit-processor"),
            ("nobody", "installed: ban, qwen3_thinking_budget"),
            (7, "custom_logit_processor"),
        ):
            response = await api.post(path, {**body, "custom_logit_processor": value})
            assert response.status_code == 400
            assert message in response.text
    async with serve(card={"logit_processors": INSTALLED, "serialized_processors": True}) as api:
        await api.post(path, {**body, "custom_logit_processor": SERIALIZED})
        assert api.channel.generated()[-1].logit_processor == SERIALIZED
        for value in ("{", "{}", '{"callable": 5}', '{"callable": "xyz"}', "{" * 5000, "{" + " " * (1 << 20)):
            response = await api.post(path, {**body, "custom_logit_processor": value})
            assert response.status_code == 400
            assert "custom_logit_processor" in response.text


async def test_the_reference_s_own_classes_are_ours_and_nothing_is_unpickled(serve) -> None:
    async with serve(card={"logit_processors": INSTALLED, "serialized_processors": True}) as api:
        module, name = "sglang.srt.sampling.custom_logit_processor", "Qwen3ThinkingBudgetLogitProcessor"
        for module_, name_, expected in (
            (module, name, "qwen3_thinking_budget"),
            (module, "OtherLogitProcessor", by_name(module, "OtherLogitProcessor")),
            ("elsewhere.sglang", name, by_name("elsewhere.sglang", name)),
        ):
            body = {"text": "Hi", "custom_logit_processor": by_name(module_, name_)}
            assert (await api.post("/generate", body)).status_code == 200
            assert api.channel.generated()[-1].logit_processor == expected


async def test_each_prompt_may_have_its_own(serve) -> None:
    async with serve(card={"logit_processors": INSTALLED}) as api:
        body = {"text": ["a", "b"], "custom_logit_processor": ["ban", None]}
        assert (await api.post("/generate", body)).status_code == 200
        assert [message.logit_processor for message in api.channel.generated()] == ["ban", None]
