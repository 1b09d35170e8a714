"""Parsers on request, sessions, and the routes that change the server."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from sgl_core.engine.messages import Control, ControlResult
from sgl_core.serve.http.settings import HttpSettings
from sgl_core.serve.testing import sentencepiece_tokenizer

pytestmark = pytest.mark.anyio


async def test_parsers_read_a_text(serve, parsers) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    async with serve(**parsers) as api:
        body = {"text": 'Sure.<call>f {"a": 1}</call><call>g {}</call>', "tools": tools}
        answer = (await api.post("/parse_function_call", body)).json()
        assert answer["normal_text"] == "Sure."
        assert answer["calls"] == [
            {"tool_index": 0, "name": "f", "parameters": '{"a": 1}'},
            {"tool_index": 1, "name": "g", "parameters": "{}"},
        ]
        answer = (await api.post("/separate_reasoning", {"text": "<think>hm</think>Yes"})).json()
        assert answer == {"reasoning_text": "hm", "text": "Yes"}
        response = await api.post("/separate_reasoning", {"text": "x", "reasoning_parser": "nope"})
        assert response.status_code == 501


async def test_parsers_are_found_by_name(serve, parsers) -> None:
    from sgl_core.registry import Registries

    registries = Registries.discover()

    def find(slot: str, name: str) -> Any:
        if name == "marks":
            return parsers["tool_parser"]
        return registries[slot].load(name)

    async with serve(find_parser=find) as api:
        answer = (
            await api.post("/parse_function_call", {"text": "<call>f {}</call>", "tool_call_parser": "marks"})
        ).json()
        assert answer["calls"][0]["name"] == "f"
        for path, field in (("/parse_function_call", "tool_call_parser"), ("/separate_reasoning", "reasoning_parser")):
            for body in ({"text": "x"}, {"text": "x", field: "no-such-parser"}):
                response = await api.post(path, body)
                assert response.status_code == 400
                assert field in response.json()["error"]["message"]


def params(key: str, **more: Any) -> dict[str, Any]:
    return {"sampling_params": {"max_new_tokens": 2}, "session_params": {"id": key, **more}}


async def test_a_session_keeps_its_turns(serve) -> None:
    async with serve() as api:
        key = (await api.post("/open_session", {"capacity_of_str_len": 1000})).json()
        sent: Callable[[], list[int]] = lambda: api.channel.generated()[-1].input_ids  # noqa: E731
        first = (await api.post("/generate", {"text": "ab", **params(key)})).json()
        one = api.tokenizer.encode("ab", False) + first["output_ids"]
        second = (await api.post("/generate", {"text": "cd", **params(key)})).json()
        two = one + api.tokenizer.encode("cd", False)
        assert sent() == two
        await api.events("/generate", {"text": "e", **params(key)})
        three = two + second["output_ids"] + api.tokenizer.encode("e", False)
        assert sent() == three
        await api.post("/generate", {"text": "f", **params(key)})
        assert sent()[: len(three)] == three
        # A branch from the first turn, with some of it only; then what came after it is forgotten.
        await api.post("/generate", {"text": "g", **params(key, rid=first["meta_info"]["id"], offset=1)})
        assert sent() == [*one[:1], *api.tokenizer.encode("g", False)]
        branch = params(key, rid=first["meta_info"]["id"], replace=True, drop_previous_output=True)
        await api.post("/generate", {"text": "h", **branch})
        assert sent() == api.tokenizer.encode("abh", False)
        gone = await api.post("/generate", {"text": "x", **params(key, rid=second["meta_info"]["id"])})
        assert gone.status_code == 400
        await api.post("/generate", {"text": "z", **params(key, replace=True)})
        assert sent() == api.tokenizer.encode("z", False)
        assert (await api.post("/close_session", {"session_id": key})).status_code == 200
        assert (await api.post("/generate", {"text": "x", **params(key)})).status_code == 400


async def test_a_session_has_one_beginning_of_sequence_token(serve) -> None:
    llama = sentencepiece_tokenizer()
    async with serve(with_tokenizer=llama) as api:
        key = (await api.post("/open_session", {"capacity_of_str_len": 1000})).json()
        for text in ("ab", "cd"):
            assert (await api.post("/generate", {"text": text, **params(key)})).status_code == 200
        assert [message.input_ids.count(llama.bos_token_id) for message in api.channel.generated()] == [1, 1]


async def test_session_refusals(serve) -> None:
    async with serve() as api:
        assert (await api.post("/open_session", {"capacity_of_str_len": 0})).status_code == 400
        assert (await api.post("/open_session", {"capacity_of_str_len": 4, "session_id": "s"})).json() == "s"
        assert (await api.post("/open_session", {"capacity_of_str_len": 4, "session_id": "s"})).status_code == 400
        assert (await api.post("/close_session", {"session_id": "t"})).status_code == 400
        bad: list[dict[str, Any]] = [
            {"text": " ", **params("s")},
            {"text": ["a"], **params("s")},
            {"input_ids": [[1]], **params("s")},
            {"input_ids": [10**8], **params("s")},
            {"text": "too long", **params("s")},
            {"text": "a", "input_ids": [1], **params("s")},
            {"text": "a", "session_params": 5},
            {"text": "a", "session_params": {}},
            {"text": "a", **params("s", rid="nope")},
        ]
        for body in bad:
            assert (await api.post("/generate", body)).status_code == 400, body
        refused = (await api.post("/generate", {"text": "a", "session_params": {}})).json()
        assert refused["error"]["param"] == "session_params.id"
        assert (await api.post("/generate", {"text": "a", **params("s")})).status_code == 200


async def test_control_operations_reach_the_worker(serve) -> None:
    async with serve() as api:
        calls: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
            ("/pause_generation", {}, "pause", {"mode": "abort"}),
            ("/pause_generation", {"mode": "retract"}, "pause", {"mode": "retract"}),
            ("/continue_generation", {}, "continue", {}),
            ("/start_profile", {"num_steps": 5}, "start_profile", {"num_steps": 5}),
            ("/stop_profile", {}, "stop_profile", {}),
            (
                "/get_weights_by_name",
                {"name": "w", "truncate_size": 2},
                "get_weight",
                {"name": "w", "truncate_size": 2},
            ),
            ("/release_memory_occupation", {"tags": ["weights"]}, "release_memory", {"tags": ["weights"]}),
            ("/resume_memory_occupation", {}, "resume_memory", {"tags": []}),
        ]
        for path, body, op, args in calls:
            response = await api.post(path, body)
            assert response.status_code == 200, response.text
            last = api.channel.sent[-1]
            assert isinstance(last, Control)
            assert (last.op, last.args) == (op, args)
        body = {"model_path": "/new", "weight_version": "v2"}
        assert (await api.post("/update_weights_from_disk", body)).status_code == 200
        assert [message.op for message in api.channel.sent[-2:]] == ["update_weights_from_disk", "flush_cache"]
        assert (await api.client.get("/model_info")).json()["weight_version"] == "v2"


async def test_the_weight_version_is_a_label(serve) -> None:
    async with serve() as api:
        assert (await api.client.get("/get_weight_version")).json() == {"weight_version": "default"}
        assert (await api.post("/update_weight_version", {"new_version": "v3"})).json()["success"] is True
        assert (await api.client.get("/weight_version")).json() == {"weight_version": "v3"}
        assert (await api.post("/update_weight_version", {})).status_code == 400


async def test_what_the_worker_lacks_is_a_501_with_the_reason(serve) -> None:
    async with serve(silent=True) as api:

        def refuse_it(message: Any) -> None:
            api.channel.sent.append(message)
            why = f"this worker has no operation {message.op!r}"
            api.channel.push(ControlResult(id=message.id, error=why, status=404))

        api.channel.send = refuse_it
        for path in ("/start_profile", "/release_memory_occupation", "/pause_generation"):
            response = await api.post(path, {})
            assert response.status_code == 501
            assert "has no operation" in response.json()["error"]["message"]
        for path in ("/load_lora_adapter", "/update_weights_from_tensor", "/v1/audio/speech"):
            assert (await api.post(path, {})).status_code == 501


async def test_bad_control_bodies(serve) -> None:
    bad: list[tuple[str, dict[str, Any]]] = [
        ("/pause_generation", {"mode": "forever"}),
        ("/get_weights_by_name", {}),
        ("/get_weights_by_name", {"name": "w", "truncate_size": 0}),
        ("/update_weights_from_disk", {}),
        ("/configure_logging", {"log_level": "loud"}),
        ("/configure_logging", {"log_requests_level": 9}),
        ("/release_memory_occupation", {"tags": "x"}),
    ]
    async with serve() as api:
        for path, body in bad:
            assert (await api.post(path, body)).status_code == 400, path


async def test_weights_are_not_changed_under_running_requests(serve) -> None:
    async with serve(silent=True) as api:
        made = (await api.post("/v1/responses", {"input": "x", "background": True})).json()
        for path, body in (("/update_weights_from_disk", {"model_path": "/x"}), ("/release_memory_occupation", {})):
            response = await api.post(path, body)
            assert response.status_code == 409
        await api.client.post(f"/v1/responses/{made['id']}/cancel")


async def test_the_log_is_configured(serve) -> None:
    root = logging.getLogger()
    before = root.level
    try:
        async with serve() as api:
            await api.post("/configure_logging", {"log_level": "debug", "log_requests": True, "log_requests_level": 3})
            assert root.level == logging.DEBUG
            assert [m.args for m in api.channel.sent if isinstance(m, Control)] == [{"level": "DEBUG"}]
            assert api.service.request_log in api.service.front.observers
            assert api.service.request_log.level == 3
            await api.post("/configure_logging", {"log_requests": False})
            assert api.service.request_log not in api.service.front.observers
    finally:
        root.setLevel(before)


async def test_routes_that_change_the_server_want_the_administrators_key(serve) -> None:
    settings = HttpSettings(api_keys=("user",), admin_key="admin")
    async with serve(settings=settings) as api:
        paths = ("/pause_generation", "/update_weights_from_disk", "/configure_logging", "/start_profile")
        for path in paths:
            assert (await api.post(path, {}, headers={"authorization": "Bearer user"})).status_code == 401
        headers = {"authorization": "Bearer admin"}
        assert (await api.post("/pause_generation", {}, headers=headers)).status_code == 200
