"""Logit processors on the default model: ready ones, a client's class, and one that fails beside others that go on."""

from __future__ import annotations

import concurrent.futures
import json

import dill
import pytest

BAN = {
    "sampling_params": {"temperature": 0, "max_new_tokens": 12, "ignore_eos": True},
    "text": "The capital of France is",
}


def never(logits, custom_param_list):
    for line, params in enumerate(custom_param_list):
        logits[line, params["banned"]] = float("-inf")
    return logits


def serialized(call) -> str:
    made = type("Sent", (), {"__call__": lambda self, logits, params: call(logits, params), "__module__": "__main__"})
    return json.dumps({"callable": dill.dumps(made, byref=False, recurse=True).hex()})


@pytest.fixture(scope="module")
def open_server(start_server):
    return start_server("--enable-custom-logit-processor")


def ask(server, processor=None, **params):
    body = {**BAN, "custom_logit_processor": processor}
    body["sampling_params"] = {**BAN["sampling_params"], "custom_params": params or None}
    return server.post("/generate", body)


def test_installed_ones_by_name_on_any_server(server):
    plain = ask(server).json()["output_ids"]
    banned = ask(server, "disallowed_tokens", token_ids=plain[:2]).json()["output_ids"]
    assert banned != plain
    assert not set(banned) & set(plain[:2])
    assert ask(server).json()["output_ids"] == plain


def test_thinking_ends_in_time(server):
    """SmolLM does not think: some of its tokens stand for the marks, the first of them in the prompt."""
    prompt = server.post("/tokenize", {"prompt": BAN["text"]}).json()["tokens"]
    marks = {"thinking_start_token_id": prompt[0], "thinking_end_token_id": 17, "new_line_token_id": 42}
    answer = ask(server, "thinking_budget", thinking_budget=len(prompt) - 1 + 4, **marks).json()["output_ids"]
    assert answer[4:6] == [42, 17]
    assert 17 not in answer[:5]


def test_code_needs_the_flag(server):
    response = ask(server, serialized(never), banned=[1])
    assert response.status_code == 400
    assert "--enable-custom-logit-processor" in response.json()["error"]["message"]


def test_a_client_s_class_is_run(open_server):
    plain = ask(open_server).json()["output_ids"]
    banned = ask(open_server, serialized(never), banned=plain[:3]).json()["output_ids"]
    assert not set(banned) & set(plain[:3])


def test_what_fails_ends_its_own_request_only(open_server):
    plain = ask(open_server).json()["output_ids"]
    good, text = ask(open_server, serialized(never), banned=plain[:1]).json()["output_ids"], serialized(never)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        wanted = [None, text, text, "disallowed_tokens"] * 3
        params = [{}, {"banned": plain[:1]}, {"wrong": 1}, {"token_ids": plain[:1]}] * 3
        answers = list(pool.map(lambda at: ask(open_server, wanted[at], **params[at]), range(12)))
    for at, answer in enumerate(answers):
        if at % 4 == 2:
            assert answer.status_code == 400
            assert "KeyError: 'banned'" in answer.json()["error"]["message"]
        else:
            assert answer.json()["output_ids"] == (plain if at % 4 == 0 else good)
    assert ask(open_server, "thinking_budget", thinking_budget=5).status_code == 400
    assert ask(open_server, json.dumps({"callable": "00"})).status_code == 400
    assert ask(open_server).json()["output_ids"] == plain
