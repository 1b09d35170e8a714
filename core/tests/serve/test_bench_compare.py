"""sgl bench compare on small servers of its own: equal loads in turns, refused fields, ratios, doubts, wrong command lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from sgl_core.cli.bench import main as bench_main
from sgl_core.cli.bench.compare import BadOption, compare, parser, rivals_of
from sgl_core.cli.bench.compare_view import page
from sgl_core.cli.bench.rival import Rival
from sgl_core.cli.bench.scenarios import SCENARIOS, named
from sgl_core.serve.client import Client, HttpError
from sgl_core.serve.core.front import Front
from sgl_core.serve.core.request import ModelCard
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.templates import ChatTemplate
from sgl_core.serve.http.app import make_app
from sgl_core.serve.testing import ScriptedChannel, byte_tokenizer, says

pytestmark = pytest.mark.anyio


@dataclass
class Fake:
    """A server that answers ``word`` once per asked-for token, refuses some fields, and keeps what it was sent."""

    refuses: tuple[str, ...] = ()
    usage: bool = True
    most: int = 10_000
    word: str = "ha "
    status: int = 200
    heard: list[dict[str, Any]] = field(default_factory=list)
    log: list[str] | None = None
    name: str = "fake"
    url: str = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        status, text = 200, json.dumps({"data": [{"id": "fake"}]})
        if head.startswith("post"):
            size = int(head.split("content-length: ")[1].split("\r\n")[0])
            body = json.loads(await reader.readexactly(size))
            status, text = self.reply(body)
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(text.encode())}\r\n\r\n{text}".encode())
        await writer.drain()
        writer.close()

    def reply(self, body: dict[str, Any]) -> tuple[int, str]:
        refused = [name for name in self.refuses if name in body]
        if refused:
            return 422, json.dumps({"detail": f"Unexpected keys: {refused}"})
        warm = "rivers" in body["messages"][0]["content"]
        if self.status != 200 and not warm:
            return self.status, json.dumps({"error": {"message": "out of order"}})
        if not warm:
            self.heard.append(body)
            if self.log is not None:
                self.log.append(self.name)
        count = min(body["max_tokens"], self.most)
        events = [{"choices": [{"delta": {"content": self.word}}]} for _ in range(count)]
        if self.usage and "stream_options" in body:
            usage = {"prompt_tokens": 10, "completion_tokens": count, "prompt_tokens_details": {"cached_tokens": 4}}
            events.append({"choices": [], "usage": usage})
        return 200, "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


@contextlib.asynccontextmanager
async def up(*fakes: Fake) -> AsyncIterator[list[Rival]]:
    """The fakes on ports of their own, and a rival for each."""
    async with contextlib.AsyncExitStack() as stack:
        rivals = []
        for fake in fakes:
            server = await stack.enter_async_context(await asyncio.start_server(fake.answer, "127.0.0.1", 0))
            fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            rivals.append(Rival(name=fake.name, client=Client(url=fake.url)))
        yield rivals


def small(name: str, **changes: Any) -> Any:
    return replace(named(name)[0], **{"system": 3, "user": 4, "output": 5, **changes})


async def test_servers_take_turns_with_the_same_prompts() -> None:
    log: list[str] = []
    one, two = Fake(name="one", log=log), Fake(name="two", log=log)
    async with up(one, two) as rivals:
        result = await compare(rivals, [small("decode1"), small("batch16", chats=2, at_once=1)], 2, 7, lambda _: None)
    first, second = ["one", "two", "one", "one", "two", "two"], ["two", "one", "two", "two", "one", "one"]
    assert log == first + second
    asked = [sorted(json.dumps(body["messages"]) for body in fake.heard) for fake in (one, two)]
    assert asked[0] == asked[1]
    assert len(set(asked[0])) == 6, "every round has prompts of its own"
    assert all(body["min_tokens"] == body["max_tokens"] == 5 and body["ignore_eos"] for body in one.heard)
    part = result["scenarios"]["batch16"]
    assert part["medians"]["one"]["output_tokens"] == part["output_tokens_wanted"] == 10
    assert part["ratios"]["two"]["output_tokens_per_s"] == pytest.approx(
        part["medians"]["one"]["output_tokens_per_s"] / part["medians"]["two"]["output_tokens_per_s"]
    )
    assert "one / two" in page(result)


async def test_every_scenario_is_played_whole() -> None:
    fake = Fake()
    async with up(fake) as rivals:
        scenarios = [scenario.shortened() for scenario in SCENARIOS]
        result = await compare(rivals, scenarios, 1, 0, lambda _: None)
    asked = sum(scenario.chats * scenario.turns for scenario in scenarios)
    assert len(fake.heard) == asked
    assert not any(part["errors"] for part in result["scenarios"].values())
    for scenario in scenarios:
        assert set(scenario.shows) <= set(result["scenarios"][scenario.name]["medians"]["fake"])
    prefixes = {body["messages"][0]["content"] for body in fake.heard if len(body["messages"][0]["content"]) > 5000}
    assert len(prefixes) == 1, "shared_prefix has one system message for all its requests"


async def test_chats_resend_their_history() -> None:
    fake = Fake(word="ok ")
    async with up(fake) as rivals:
        await compare(rivals, [small("multi_turn", chats=1, turns=3, output=2)], 1, 0, lambda _: None)
    roles = [[message["role"] for message in body["messages"]] for body in fake.heard]
    assert roles[2] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert fake.heard[2]["messages"][:4] == [
        *fake.heard[1]["messages"][:2],
        {"role": "assistant", "content": "ok ok "},
        fake.heard[1]["messages"][3],
    ]


async def test_refused_fields_are_left_out_and_said() -> None:
    fake = Fake(refuses=("min_tokens", "ignore_eos", "stream_options"), name="strict")
    async with up(fake) as rivals:
        result = await compare(rivals, [small("decode1")], 1, 0, lambda _: None)
    assert "strict refuses ignore_eos, min_tokens, stream_options: left out" in result["notes"]
    assert any("sends no usage" in note for note in result["notes"])
    assert result["scenarios"]["decode1"]["medians"]["strict"]["output_tokens"] == 5


async def test_an_end_of_sequence_ban_and_other_own_fields_reach_their_server_only() -> None:
    one, two = Fake(name="one"), Fake(name="two")
    async with up(one, two):
        words = [f"one={one.url}/v1", f"two={two.url}", "--ban-eos", "two:2", "--body", 'two:{"top_k": 1}']
        options = parser().parse_args([*words, "--drop", "two:min_tokens", "--model", "two:other"])
        await compare(rivals_of(options), [small("decode1")], 1, 0, lambda _: None)
    assert two.heard[0]["logit_bias"] == {"2": -100}
    assert (two.heard[0]["top_k"], two.heard[0]["model"]) == (1, "other")
    assert "min_tokens" not in two.heard[0]
    assert not {"logit_bias", "top_k"} & set(one.heard[0])
    assert one.heard[0]["model"] == "fake"


async def test_unequal_lengths_and_failures_are_doubts() -> None:
    short, broken = Fake(name="short", most=3), Fake(name="broken", status=500)
    async with up(short, broken) as rivals:
        result = await compare(rivals, [small("decode1")], 1, 0, lambda _: None)
    text = page(result)
    assert "short: 3 tokens came instead of 5" in text
    assert "broken: 1 failed: HTTP 500: out of order" in text
    assert result["scenarios"]["decode1"]["ratios"]["broken"] == {}


async def test_schema_answers_are_checked() -> None:
    good = {"title": "A", "year": 1999, "kind": "poem", "in_print": True, "themes": ["sea"]}
    fake = Fake(word=json.dumps(good))
    async with up(fake) as rivals:
        result = await compare(rivals, [small("json", chats=2, output=1)], 1, 0, lambda _: None)
    assert result["scenarios"]["json"]["medians"]["fake"]["valid"] == 2
    assert fake.heard[0]["response_format"]["json_schema"]["strict"] is True
    assert "ignore_eos" not in fake.heard[0]


async def test_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one, two = Fake(name="one"), Fake(name="two")
    file = tmp_path / "result.json"
    async with up(one, two):
        words = ["compare", f"one={one.url}", two.url, "--scenario", "json,decode1", "--quick", "--rounds", "1"]
        assert await asyncio.to_thread(bench_main, [*words, "--json", str(file)]) == 0
        shown = capsys.readouterr()
        assert "decode1: 1 stream" in shown.out
        assert "round 1 of 1: json, one" in shown.err
        assert list(json.loads(file.read_text())["scenarios"]) == ["json", "decode1"]
        assert await asyncio.to_thread(bench_main, [*words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["rounds"] == 1
        two.status = 503
        assert await asyncio.to_thread(bench_main, words) == 1
        assert "failed: HTTP 503" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["127.0.0.1:1"], "is not \\[NAME=\\]URL"),
        (["a=http://x", "a=http://y"], "stands for two servers"),
        (["a=http://x", "--ban-eos", "b:2"], "--ban-eos 'b:2'"),
        (["a=http://x", "--drop", "b:min_tokens"], "SERVER:FIELD"),
        (["a=http://x", "--body", "[1]"], "--body"),
        (["a=http://x", "b=http://y", "--pid", "12"], "say whose it is"),
    ],
)
async def test_wrong_options_are_named(words: list[str], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        rivals_of(parser().parse_args(words))


async def test_wrong_scenarios_and_silent_servers_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_main(["compare", "a=http://127.0.0.1:1", "--scenario", "decode2"]) == 2
    assert "choose from decode1" in capsys.readouterr().err
    assert bench_main(["compare", "a=http://127.0.0.1:1", "--rounds", "0"]) == 2
    with pytest.raises(HttpError, match="give --model gone:NAME"):
        await compare([Rival(name="gone", client=Client(url="http://127.0.0.1:1"))], SCENARIOS, 1, 0, lambda _: None)


async def test_our_own_server_gives_equal_lengths() -> None:
    tokenizer = byte_tokenizer()
    script = says(tokenizer.encode("Fine, thanks.", False), eos=tokenizer.eos_token_ids[0])
    card = ModelCard(name="tiny", vocab_size=tokenizer.size, eos_token_ids=tokenizer.eos_token_ids)
    front = Front(ScriptedChannel(script, vocab_size=tokenizer.size), tokenizer, card)
    await front.start()
    await front.wait_ready()
    service = Service(front=front, template=ChatTemplate(tokenizer.chat_template or "", tokenizer.special_tokens))
    server = uvicorn.Server(uvicorn.Config(make_app(service), port=0, log_level="warning", lifespan="off"))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup()
    address = server.servers[0].sockets[0].getsockname()[1]
    try:
        rival = Rival(name="ours", client=Client(url=f"http://127.0.0.1:{address}"))
        result = await compare([rival], [small("batch16", chats=3, output=30)], 1, 0, lambda _: None)
    finally:
        await server.shutdown()
        await front.close()
    part = result["scenarios"]["batch16"]
    assert part["errors"] == {}
    assert part["medians"]["ours"]["output_tokens"] == 90
    assert result["servers"]["ours"]["model"] == "tiny"
