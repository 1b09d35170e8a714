"""The front: aborts, duplicate ids, early and late failures, death of the worker, drain, and counters that add up."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from sgl_core.engine.messages import Abort, Fatal, Generate, Output, Outputs, Stats
from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.front import Front
from sgl_core.serve.core.request import ModelCard
from sgl_core.serve.testing import ScriptedChannel

pytestmark = pytest.mark.anyio

CHAT, TEXT, NATIVE = "/v1/chat/completions", "/v1/completions", "/generate"
BODIES = {
    CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    TEXT: {"prompt": "hi"},
    NATIVE: {"text": "hi"},
}


class Wire:
    """One HTTP request over ASGI whose client can leave at any time."""

    def __init__(self, app: Any, path: str, body: bytes) -> None:
        self.sent: list[dict[str, Any]] = []
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})
        self.got = asyncio.Event()
        scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1"}
        scope |= {"method": "POST", "path": path, "raw_path": path.encode(), "root_path": "", "scheme": "http"}
        scope |= {"query_string": b"", "headers": [], "server": ("test", 80), "client": ("test", 1)}
        self.task = asyncio.create_task(app(scope, self._incoming.get, self._send))

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        self.got.set()

    def leave(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})


async def until(condition: Any) -> None:
    for _ in range(5000):
        if condition():
            return
        await anyio.sleep(0.001)
    raise AssertionError("waited five seconds in vain")


def dump(body: dict[str, Any]) -> bytes:
    import json

    return json.dumps(body).encode()


@pytest.mark.field_case("199")
@pytest.mark.parametrize("path", list(BODIES))
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("tokens", [0, 3])
async def test_case_199_a_client_that_leaves_ends_its_request(serve, path: str, stream: bool, tokens: int) -> None:
    async with serve(silent=True) as api:
        wire = Wire(api.app, path, dump({**BODIES[path], "stream": stream}))
        await until(api.channel.generated)
        rid = api.channel.generated()[0].rid
        for _ in range(tokens):
            api.channel.push(Outputs(items=[Output(rid=rid, token_ids=[api.tokenizer.encode("a", False)[0]])]))
        if stream and tokens:
            await wire.got.wait()
        wire.leave()
        await asyncio.wait_for(wire.task, 5)
        assert api.channel.sent[-1] == Abort(rid=rid, reason="abort")
        assert api.service.front.running == 0
        assert api.service.front._runs == {}


@pytest.mark.field_case("55")
async def test_case_55_one_id_twice(serve) -> None:
    async with serve(silent=True) as api:
        first = asyncio.create_task(api.post(NATIVE, {"text": "hi", "rid": "x"}))
        await until(api.channel.generated)
        second = await api.post(NATIVE, {"text": "hi", "rid": "x"})
        assert second.status_code == 400
        assert second.json()["error"]["param"] == "rid"
        rid = api.channel.generated()[0].rid
        api.channel.push(Outputs(items=[Output(rid=rid, token_ids=[65], finish_reason="length")]))
        assert (await first).status_code == 200
        third = asyncio.create_task(api.post(NATIVE, {"text": "hi", "rid": "x"}))
        await until(lambda: len(api.channel.generated()) == 2)
        await api.post("/abort_request", {"rid": "x"})
        answer = (await third).json()
        assert answer["meta_info"]["finish_reason"]["type"] == "abort"


async def test_abort_all(serve) -> None:
    async with serve(silent=True) as api:
        tasks = [asyncio.create_task(api.post(path, body)) for path, body in BODIES.items()]
        await until(lambda: len(api.channel.generated()) == 3)
        assert (await api.post("/abort_request", {"abort_all": True})).json() == {"aborted": 3}
        chat, text, native = [task.json() for task in await asyncio.gather(*tasks)]
        assert chat["choices"][0]["finish_reason"] == text["choices"][0]["finish_reason"] == "abort"
        assert native["meta_info"]["finish_reason"]["type"] == "abort"
        assert (await api.post("/abort_request", {})).status_code == 400


@pytest.mark.parametrize("path", list(BODIES))
@pytest.mark.parametrize("stream", [True, False])
async def test_a_full_queue_is_a_503_even_for_streams(serve, path: str, stream: bool) -> None:
    def full(message: Generate) -> list[Output]:
        return [Output(rid=message.rid, finish_reason="error", message="the queue is full", status=503)]

    async with serve(full) as api:
        response = await api.post(path, {**BODIES[path], "stream": stream})
        assert response.status_code == 503
        assert response.json()["error"]["message"] == "the queue is full"
        assert response.headers["retry-after"]


@pytest.mark.parametrize("path", list(BODIES))
async def test_a_failure_in_mid_stream_is_an_error_event(serve, tokenizer, path: str) -> None:
    token = tokenizer.encode("a", False)

    def breaks(message: Generate) -> list[Output]:
        return [
            Output(rid=message.rid, token_ids=token),
            Output(rid=message.rid, finish_reason="error", message="the step failed", status=500),
        ]

    async with serve(breaks) as api:
        events = await api.events(path, BODIES[path])
        assert events[-1]["error"]["message"] == "the step failed"
        assert (await api.post(path, BODIES[path])).status_code == 500
        assert api.service.front.running == 0


async def test_one_failed_choice_ends_the_others(serve, tokenizer) -> None:
    def second_fails(message: Generate) -> list[Output]:
        if message.rid.endswith(".1"):
            return [Output(rid=message.rid, finish_reason="error", message="no", status=500)]
        return []

    async with serve(second_fails) as api:
        response = await api.post(TEXT, {"prompt": "hi", "n": 3})
        assert response.status_code == 500
        assert api.service.front.running == 0
        aborted = {message.rid for message in api.channel.sent if isinstance(message, Abort)}
        assert {rid.split(".")[1] for rid in aborted} <= {"0", "2"}


@pytest.mark.parametrize("how", ["fatal", "silent"])
async def test_a_dead_worker_is_told_to_everybody_within_two_seconds(serve, how: str) -> None:
    async with serve(silent=True) as api:
        tasks = [asyncio.create_task(api.post(path, body)) for path, body in BODIES.items()]
        tasks += [asyncio.create_task(api.post(path, {**body, "stream": True})) for path, body in BODIES.items()]
        control = asyncio.create_task(api.service.front.control("stats"))
        await until(lambda: len(api.channel.generated()) == 6)
        begun = asyncio.get_running_loop().time()
        if how == "fatal":
            api.channel.push(Fatal(message="out of memory", traceback="Traceback: secret"))
        api.channel.kill()
        responses = await asyncio.gather(*tasks)
        assert asyncio.get_running_loop().time() - begun < 2
        for response in responses:
            assert response.status_code == 503
            assert "worker" in response.json()["error"]["message"]
            assert "secret" not in response.text
        with pytest.raises(RequestError, match="worker"):
            await control
        health = await api.client.get("/health")
        assert health.status_code == 503
        assert "worker" in health.json()["error"]["message"]
        assert (await api.post(TEXT, BODIES[TEXT])).status_code == 503
        assert (await api.client.get("/v1/models")).status_code == 200


async def test_loading_is_not_ready(tokenizer) -> None:
    channel = ScriptedChannel()
    channel._queue = asyncio.Queue()
    front = Front(channel, tokenizer, ModelCard(name="m"))
    await front.start()
    assert "loading" in front.unhealthy()
    with pytest.raises(RequestError) as error:
        front.check_open()
    assert error.value.status == 503
    channel.push(Fatal(message="the weights are broken"))
    with pytest.raises(RequestError, match="the weights are broken"):
        await front.wait_ready()
    await front.close()


@pytest.mark.field_case("200")
async def test_case_200_a_drain_lets_what_runs_end(serve) -> None:
    async with serve(silent=True) as api:
        front = api.service.front
        running = asyncio.create_task(api.events(CHAT, BODIES[CHAT]))
        await until(api.channel.generated)
        drain = asyncio.create_task(front.drain(5))
        await until(lambda: front.state == "draining")
        assert (await api.post(TEXT, BODIES[TEXT])).status_code == 503
        assert (await api.client.get("/health")).status_code == 503
        rid = api.channel.generated()[0].rid
        api.channel.push(Outputs(items=[Output(rid=rid, token_ids=[65], finish_reason="length")]))
        events = await running
        assert events[-1]["choices"][0]["finish_reason"] == "length"
        assert await drain is True


async def test_a_drain_has_a_bound(serve) -> None:
    async with serve(silent=True) as api:
        running = asyncio.create_task(api.post(TEXT, BODIES[TEXT]))
        await until(api.channel.generated)
        assert await api.service.front.drain(0.05) is False
        await api.service.front.close()
        assert (await running).status_code == 503


async def test_hung_workers_turn_health_red(serve) -> None:
    async with serve(silent=True) as api:
        front = api.service.front
        running = asyncio.create_task(api.post(TEXT, BODIES[TEXT]))
        await until(api.channel.generated)
        assert front.unhealthy() == ""
        front.last_message -= 1000
        assert "said nothing" in front.unhealthy()
        front.abort(everything=True)
        await running


@pytest.mark.field_case("202")
async def test_case_202_counters_add_up(serve, tokenizer) -> None:
    a = tokenizer.encode("a", False)

    def script(message: Generate) -> list[Output]:
        if message.sampling.seed == 1:
            return [Output(rid=message.rid, finish_reason="error", message="no", status=500)]
        if message.sampling.seed == 2:
            return [Output(rid=message.rid, token_ids=a)]
        return [Output(rid=message.rid, token_ids=a), Output(rid=message.rid, token_ids=a * 2, finish_reason="length")]

    async with serve(script) as api:
        for _ in range(4):
            await api.post(TEXT, {"prompt": "hi"})
        await api.events(CHAT, BODIES[CHAT])
        assert (await api.post(TEXT, {"prompt": "hi", "seed": 1})).status_code == 500
        assert (await api.post(TEXT, {"prompt": "hi", "temperature": -1})).status_code == 400
        stuck = asyncio.create_task(api.post(TEXT, {"prompt": "hi", "seed": 2}))
        await until(lambda: api.service.front.running == 1)
        await api.post("/abort_request", {"abort_all": True})
        await stuck
        api.channel.push(Stats(running=3, waiting=2, total_pages=100, used_pages=25, retractions=3))
        await until(lambda: api.service.front.stats.running == 3)
        page = (await api.client.get("/metrics")).text
        value = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line[0] != "#"}
        plain, streamed = '{is_streaming="false",model_name="tiny"}', '{is_streaming="true",model_name="tiny"}'
        assert value["sglang:num_requests_total" + plain] == 6
        assert value["sglang:num_requests_total" + streamed] == 1
        assert value["sglang:generation_tokens_total" + plain] == 4 * 3 + 1
        assert value["sglang:generation_tokens_total" + streamed] == 3
        only = '{model_name="tiny"}'
        assert value["sglang:num_aborted_requests_total" + only] == 1
        assert value["sglang:num_failed_requests_total" + only] == 1
        assert value["sglang:e2e_request_latency_seconds_count" + plain] == 4
        assert value["sglang:time_to_first_token_seconds_count" + plain] == 5
        assert value["sglang:time_to_first_token_seconds_count" + streamed] == 1
        assert value["sglang:inter_token_latency_seconds_count" + only] == 5 * 2
        worker = [key for key in value if key.startswith("sglang:num_running_reqs")]
        assert value[worker[0]] == 3
        assert value[worker[0].replace("num_running_reqs", "token_usage")] == 0.25
        assert value[worker[0].replace("num_running_reqs", "num_retracted_requests_total")] == 3


@pytest.mark.field_case("25")
async def test_case_25_cached_tokens_with_several_choices(serve, tokenizer) -> None:
    a = tokenizer.encode("a", False)

    def script(message: Generate) -> list[Output]:
        cached = 0 if message.rid.endswith(".0") else 199
        return [Output(rid=message.rid, token_ids=a, finish_reason="length", cached_tokens=cached, prompt_tokens=200)]

    async with serve(script) as api:
        usage = (await api.post(TEXT, {"prompt": "x" * 200, "n": 4})).json()["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0
        assert usage["prompt_tokens"] == 200
        assert usage["completion_tokens"] == 4


async def test_outputs_of_forgotten_requests_are_ignored(serve) -> None:
    async with serve() as api:
        api.channel.push(Outputs(items=[Output(rid="nobody", token_ids=[1])]))
        assert (await api.post(TEXT, BODIES[TEXT])).status_code == 200


async def test_health_generate_and_flush(serve) -> None:
    async with serve() as api:
        assert (await api.client.get("/health")).status_code == 200
        assert (await api.client.get("/health_generate")).status_code == 200
        assert (await api.post("/flush_cache", {})).status_code == 200
        page = (await api.client.get("/metrics")).text
        assert 'num_requests_total{is_streaming="false",model_name="tiny"} 0.0' in page
