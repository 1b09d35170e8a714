"""Case 58: a harmony answer that goes on after its end mark, because ``ignore_eos`` asked for it, is served whole and streamed."""

from __future__ import annotations

import json

import httpx
import pytest

from sgl_core.registry import Registries
from sgl_core.serve.core.front import Front
from sgl_core.serve.core.request import ModelCard
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.templates import ChatTemplate
from sgl_core.serve.http.app import make_app
from sgl_core.serve.testing import ScriptedChannel, byte_tokenizer, says

ANSWER = "<|channel|>analysis<|message|>Greet.<|end|><|start|>assistant<|channel|>final<|message|>Hi!<|return|>"
JUNK = [
    "<|end|>",
    "more text",
    "<|channel|>",
    "<|start|>assistant<|channel|>nothing<|message|>",
    "<|return|><|return|>",
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.field_case("58")
@pytest.mark.parametrize("junk", JUNK)
async def test_what_follows_the_end_mark_is_no_fault(junk: str) -> None:
    registries, tokenizer = Registries.discover(), byte_tokenizer()
    channel = ScriptedChannel(says(tokenizer.encode(ANSWER + junk * 3, False)), vocab_size=tokenizer.size)
    front = Front(channel, tokenizer, ModelCard(name="tiny", vocab_size=tokenizer.size))
    service = Service(
        front=front,
        template=ChatTemplate(tokenizer.chat_template or "", tokenizer.special_tokens),
        reasoning_parser=registries.reasoning_parsers.load("gpt-oss"),
        tool_parser=registries.tool_parsers.load("gpt-oss"),
    )
    await front.start()
    await front.wait_ready()
    body = {"messages": [{"role": "user", "content": "Say hi."}], "max_completion_tokens": 300, "ignore_eos": True}
    transport = httpx.ASGITransport(app=make_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        plain = await client.post("/v1/chat/completions", json=body)
        assert plain.status_code == 200, plain.text
        message = plain.json()["choices"][0]["message"]
        assert (message["content"] or "").startswith("Hi!")
        assert plain.json()["usage"]["completion_tokens"] == 300
        streamed = await client.post("/v1/chat/completions", json={**body, "stream": True})
        events = [json.loads(line[6:]) for line in streamed.text.split("\n\n") if line and line != "data: [DONE]"]
        text = "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
        assert text == message["content"]
    await front.close()
