"""sgl chat and sgl bench serve against a live server in this process, and the pieces they are made of."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from sgl_core.cli.bench import main as bench_main
from sgl_core.cli.bench.measure import Record, spread, summary
from sgl_core.cli.bench.workload import Span, Workload
from sgl_core.cli.chat import ServerSilent, ServerTalker, converse, parser
from sgl_core.serve.client import Client, HttpError
from sgl_core.serve.core.front import Front
from sgl_core.serve.core.request import ModelCard
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.templates import ChatTemplate
from sgl_core.serve.http.app import make_app
from sgl_core.serve.testing import ScriptedChannel, byte_tokenizer, says


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server whose model always says the same."""
    tokenizer = byte_tokenizer()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    ready, servers = threading.Event(), []

    async def serve() -> None:
        script = says(tokenizer.encode("Fine, thanks.", False), eos=tokenizer.eos_token_ids[0])
        card = ModelCard(name="tiny", vocab_size=tokenizer.size, eos_token_ids=tokenizer.eos_token_ids)
        front = Front(ScriptedChannel(script, vocab_size=tokenizer.size), tokenizer, card)
        await front.start()
        await front.wait_ready()
        service = Service(front=front, template=ChatTemplate(tokenizer.chat_template or "", tokenizer.special_tokens))
        server = uvicorn.Server(uvicorn.Config(make_app(service), log_level="warning", lifespan="off"))
        servers.append((server, asyncio.get_running_loop()))
        ready.set()
        await server.serve(sockets=[listener])
        await front.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    servers[0][0].should_exit = True
    thread.join(10)
    listener.close()


def test_a_conversation(url: str) -> None:
    options = parser().parse_args(["--url", url, "--system", "Be kind."])
    lines = iter(["How are you?", "/help", "/system Be brief.", "", "And now?", "/clear", "/exit"])
    said: list[str] = []
    assert converse(ServerTalker(url, options), options, lambda prompt: next(lines), said.append) == 0
    assert "".join(said).count("Fine, thanks.") == 2


def test_the_end_of_input_ends_the_conversation(url: str) -> None:
    def read(prompt: str) -> str:
        raise EOFError

    options = parser().parse_args([])
    assert converse(ServerTalker(url, options), options, read, lambda text: None) == 0


def test_history_is_sent_and_failures_are_not_kept() -> None:
    class Fake:
        def __init__(self) -> None:
            self.heard: list[list[dict[str, Any]]] = []

        def reply(self, messages: list[dict[str, Any]]) -> Iterator[str]:
            self.heard.append(messages)
            if messages[-1]["content"] == "fail":
                raise HttpError("HTTP 500: no")
            yield "yes"

        def close(self) -> None:
            return

    fake, lines = Fake(), iter(["one", "fail", "two", "/exit"])
    converse(fake, parser().parse_args([]), lambda prompt: next(lines), lambda text: None)
    assert [message["content"] for message in fake.heard[-1]] == ["one", "yes", "two"]


def test_no_server_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ServerSilent, match="cannot be reached"):
        ServerTalker(address, parser().parse_args([]))
    assert bench_main(["serve", "--url", address]) == 1


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_bench_by_concurrency(url: str, endpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "--url", url, "--requests", "12", "--concurrency", "4", "--endpoint", endpoint]
    assert bench_main([*words, "--input-len", "4:8", "--output-len", "5", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["completed"] == 12
    assert result["output_tokens"] == 60
    assert set(result["ttft_ms"]) == {"mean", "p50", "p90", "p99", "max"}
    assert result["model"] == "tiny"


def test_bench_by_rate_prints_a_table(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "--url", url + "/v1", "--requests", "5", "--request-rate", "500", "--prefix-len", "10"]
    assert bench_main([*words, "--input-len", "3", "--output-len", "4"]) == 0
    page = capsys.readouterr().out
    assert "5 of 5" in page
    assert "time to first token" in page


def test_bench_counts_failures(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "--url", url, "--requests", "2", "--warmup", "0", "--output-len", "9999", "--json"]
    words += ["--input-len", "3"]
    assert bench_main(words) == 1
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert "max_tokens" in next(iter(errors))
    assert bench_main(["nothing"]) == 2


def test_workloads_are_the_same_for_the_same_seed() -> None:
    load = Workload(requests=6, input=Span.parse("2:4"), output=Span.parse("7"), prefix=5, prefixes=2, seed=3)
    items = list(load.items())
    assert items == list(load.items())
    heads = [" ".join(prompt.split()[:5]) for prompt, _ in items]
    assert heads[0] == heads[2] != heads[1] == heads[3]
    assert {most for _, most in items} == {7}
    with pytest.raises(ValueError, match="range"):
        Span.parse("5:2")


def test_figures() -> None:
    good = Record(sent=0, first=0.1, last=0.4, gaps=[0.1, 0.2], prompt_tokens=5, output_tokens=4)
    result = summary([good, Record(sent=0, error="no"), Record(sent=0, error="no")], 2.0)
    assert result["completed"] == 1
    assert result["errors"] == {"no": 2}
    assert result["output_tokens_per_s"] == 2
    assert result["tpot_ms"]["p50"] == pytest.approx(100)
    assert spread([float(n) for n in range(1, 101)])["p90"] == 90_000
    assert spread([]) == {}


@pytest.mark.anyio
async def test_the_client_reads_errors(url: str) -> None:
    client = Client(url=url)
    assert (await client.get("/v1/models"))["data"][0]["id"] == "tiny"
    with pytest.raises(HttpError, match="temperature") as error:
        await client.post("/v1/completions", {"prompt": "a", "temperature": -1})
    assert error.value.status == 400
    with pytest.raises(HttpError, match="prompt"):
        await anext(client.stream("/v1/completions", {"prompt": "", "stream": True}))
