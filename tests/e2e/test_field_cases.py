"""Faults of the field, tried on the real model: what a scripted worker cannot show (see docs/field-cases.md)."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server.root}/v1", api_key="none", max_retries=0, timeout=300)


def strict(text: str):
    """JSON as standards have it: no NaN, no Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def native(server, text: str, **sampling) -> list[int]:
    body = {"text": text, "sampling_params": {"temperature": 0, "max_new_tokens": 16, "ignore_eos": True, **sampling}}
    return server.post("/generate", body).json()["output_ids"]


def used_tokens(server) -> int:
    return int(server.get("/get_load").json()[0]["num_tokens"])


def requests(server) -> dict[str, float]:
    """How many requests were accepted, and how many of them ended in which way."""
    page = server.get("/metrics").text
    values = [line.rsplit(" ", 1) for line in page.splitlines() if line and line[0] != "#"]
    kinds = {"accepted": "", "finished": "finished_", "aborted": "aborted_", "failed": "failed_"}
    return {
        how: sum(float(value) for name, value in values if name.startswith(f"sglang:num_{kind}requests_total"))
        for how, kind in kinds.items()
    }


@pytest.mark.field_case("1")
def test_only_the_prompt_with_its_logprobs(server):
    body = {"prompt": "Your answer: Yes", "max_tokens": 0, "echo": True, "logprobs": 1, "temperature": 0}
    answer = strict(server.post("/v1/completions", body).text)
    values = answer["choices"][0]["logprobs"]["token_logprobs"]
    assert answer["choices"][0]["text"] == "Your answer: Yes"
    assert values[0] is None
    assert all(value < 0 for value in values[1:])
    assert answer["usage"]["completion_tokens"] == 0


@pytest.mark.field_case("2", "31")
def test_echo_logprobs_and_stream_in_all_combinations(server, client):
    for echo, logprobs in itertools.product((False, True), (None, 1)):
        asked = {
            "model": server.model,
            "prompt": "Warsaw is",
            "max_tokens": 20,
            "temperature": 0,
            "echo": echo,
            "logprobs": logprobs,
        }
        plain = client.completions.create(**asked).choices[0]
        chunks = [chunk.choices[0] for chunk in client.completions.create(**asked, stream=True)]
        assert "".join(chunk.text for chunk in chunks) == plain.text
        assert plain.text.startswith("Warsaw is") == echo
        if logprobs:
            for field in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
                joined = [value for chunk in chunks if chunk.logprobs for value in getattr(chunk.logprobs, field)]
                assert joined == getattr(plain.logprobs, field)


@pytest.mark.field_case("5")
def test_masked_tokens_are_strict_json(server):
    sampling = {"regex": "(yes|no)", "max_new_tokens": 8}
    body = {"text": "Is it?", "sampling_params": sampling, "return_logprob": True, "top_logprobs_num": 5}
    answer = strict(server.post("/generate", body).text)
    assert answer["text"] in ("yes", "no")
    body = {"prompt": "correct horse battery staple", "echo": True, "logprobs": 1, "temperature": 1, "top_k": 1}
    kept = strict(server.post("/v1/completions", body).text)["choices"][0]["logprobs"]["token_logprobs"]
    free = strict(server.post("/v1/completions", {**body, "top_k": -1}).text)["choices"][0]["logprobs"]
    assert kept[1:4] == pytest.approx(free["token_logprobs"][1:4], abs=1e-4)


@pytest.mark.field_case("8", "10", "11")
def test_histories_of_the_field(server):
    calls = [{"id": "call_0", "type": "function", "function": {"name": "sqrt", "arguments": '{"arg0": 101}'}}]
    tool = {"role": "tool", "tool_call_id": "call_0", "content": "10.05"}
    asked = {"role": "user", "content": "What is the square root of 101?"}
    missing, null = {"role": "assistant", "tool_calls": calls}, {"role": "assistant", "content": None}
    ids = []
    for messages in ([asked, missing, tool], [asked, {**null, "tool_calls": calls}, tool]):
        body = {"messages": messages, "max_tokens": 8, "temperature": 0}
        assert server.post("/v1/chat/completions", body).status_code == 200
        ids.append(server.post("/tokenize", {"messages": messages}).json()["tokens"])
    assert ids[0] == ids[1]
    assert "10.05" in server.post("/detokenize", {"tokens": ids[0]}).json()["text"]
    only = {"messages": [{"role": "assistant", "content": "Hello, who are you?"}], "max_tokens": 8}
    assert server.post("/v1/chat/completions", only).status_code == 200


@pytest.mark.field_case("16", "17", "19", "20")
def test_values_at_and_beyond_their_limits(server):
    base = {"prompt": "1 2 3 4 5 ", "max_tokens": 8}
    for good in ({"top_k": 9999999}, {"top_k": 0}, {"top_k": -1}, {"top_p": 1}, {"top_k": 1}):
        assert server.post("/v1/completions", {**base, "temperature": 1.0, **good}).status_code == 200, good
    for bad in ({"top_k": -2}, {"top_p": 0}, {"min_p": 2.0}, {"repetition_penalty": 0}, {"max_tokens": 50000}):
        refused = server.post("/v1/completions", {**base, **bad})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == next(iter(bad))
    long = server.post("/v1/completions", {"prompt": "word " * 9000})
    assert long.status_code == 400
    assert "8192" in long.json()["error"]["message"]


@pytest.mark.field_case("25")
def test_several_choices_of_a_new_prompt_report_no_hit(server):
    prompt = "Tell me of numbers: " + " ".join(str(number * 37 % 1009) for number in range(70))
    first = server.post("/v1/completions", {"prompt": prompt, "n": 4, "max_tokens": 5, "ignore_eos": True}).json()
    again = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1}).json()["usage"]
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert first["usage"]["completion_tokens"] == 20
    assert first["usage"]["prompt_tokens"] == again["prompt_tokens"]
    assert again["prompt_tokens_details"]["cached_tokens"] >= again["prompt_tokens"] - 1


@pytest.mark.field_case("34", "35", "37", "38")
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_call_that_is_asked_for_comes(server, client, choice):
    asked = {
        "model": server.model,
        "messages": [{"role": "user", "content": "Hello, how are you?"}],
        "tools": [WEATHER],
        "tool_choice": choice,
        "parallel_tool_calls": False,
        "max_tokens": 400,
        "temperature": 0,
    }
    (call,) = client.chat.completions.create(**asked).choices[0].message.tool_calls or ()
    assert call.function.name == "get_weather"
    assert call.id.startswith("call_")
    assert set(json.loads(call.function.arguments)) == {"city"}
    deltas = [chunk.choices[0] for chunk in client.chat.completions.create(**asked, stream=True) if chunk.choices]
    parts = [part for delta in deltas for part in delta.delta.tool_calls or []]
    assert "".join(part.function.arguments or "" for part in parts) == call.function.arguments
    assert [bool(part.id) for part in parts] == [True] + [False] * (len(parts) - 1)
    assert {part.index for part in parts} == {0}
    assert deltas[-1].finish_reason == "tool_calls"
    other = {"type": "function", "function": {"name": "other"}}
    with pytest.raises(openai.BadRequestError, match="tool_choice"):
        client.chat.completions.create(**{**asked, "tool_choice": other})


@pytest.mark.field_case("44", "46", "50")
def test_stops_cut_exactly_and_lose_nothing(server, client):
    asked = {
        "model": server.model,
        "prompt": "Alice: Ask me any question.\nBob: What color is the sky on Mars",
        "max_tokens": 8,
        "temperature": 0,
        "extra_body": {"ignore_eos": True},
    }
    whole = client.completions.create(**asked).choices[0].text
    for stop in (["\n"], ["###"], [whole[2:4]], [whole + "never"]):
        plain = client.completions.create(**asked, stop=stop).choices[0].text
        chunks = [chunk.choices[0] for chunk in client.completions.create(**asked, stop=stop, stream=True)]
        assert "".join(chunk.text for chunk in chunks) == plain == whole.partition(stop[0])[0]
        assert all(chunk.text for chunk in chunks if not chunk.finish_reason)


@pytest.mark.field_case("53", "151")
def test_sampling_samples_and_seeds_repeat_on_chat_too(server, client):
    def ask(**more) -> str:
        messages = [{"role": "user", "content": "Write a random word."}]
        answer = client.chat.completions.create(
            model=server.model,
            messages=messages,
            temperature=1,
            max_tokens=12,
            extra_body={"ignore_eos": True},
            **more,
        )
        return answer.choices[0].message.content or ""

    drawn = [ask(seed=seed) for seed in range(8)]
    assert ask(seed=0) == drawn[0]
    assert len(set(drawn)) > 1
    assert len({ask() for _ in range(10)}) > 1


@pytest.mark.field_case("56")
def test_ignored_end_tokens_do_not_end(server):
    messages = [{"role": "user", "content": "Say hi."}]
    body = {"messages": messages, "max_tokens": 200, "temperature": 0, "ignore_eos": True}
    answer = server.post("/v1/chat/completions", body).json()
    assert answer["usage"]["completion_tokens"] == 200
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.field_case("61", "64", "65")
@pytest.mark.parametrize("interval", [1, 2, 8])
def test_streams_of_other_scripts_are_whole(server, interval):
    text = "locating logs and 世界 \U0001f923 e\u0301 \u2764\ufe0f"
    schema = {"const": text}
    body = {"prompt": "x", "max_tokens": 80, "json_schema": schema, "stream_interval": interval}
    plain = server.post("/v1/completions", body).json()["choices"][0]["text"]
    assert json.loads(plain) == text
    with httpx.stream("POST", server.root + "/v1/completions", json={**body, "stream": True}, timeout=60) as stream:
        lines = [line[6:] for line in stream.iter_lines() if line.startswith("data: ") and line != "data: [DONE]"]
    joined = "".join(json.loads(line)["choices"][0]["text"] for line in lines)
    assert json.loads(joined) == text
    assert "\ufffd" not in joined


@pytest.mark.field_case("134", "145")
def test_greedy_and_seeded_keep_their_ways_in_one_batch(server):
    def greedy() -> list[int]:
        return native(server, "Once upon a time", max_new_tokens=64)

    def seeded() -> list[int]:
        return native(server, "The quick brown fox, who was", temperature=1, sampling_seed=5)

    alone = greedy(), seeded()
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            first = pool.submit(greedy)
            assert (pool.submit(seeded).result(), first.result()) == (alone[1], alone[0])


@pytest.mark.field_case("148", "149")
def test_penalties_have_their_effect(server):
    prompt = "Paris Paris Paris Paris Paris Paris Paris Paris"
    plain = native(server, prompt, max_new_tokens=48)
    for penalty in ({"frequency_penalty": 2.0}, {"presence_penalty": 2.0}, {"repetition_penalty": 2.0}):
        assert native(server, prompt, max_new_tokens=48, **penalty) != plain, penalty
    first = native(server, prompt, max_new_tokens=1)
    assert native(server, prompt, max_new_tokens=1, presence_penalty=2.0, frequency_penalty=2.0) == first


@pytest.mark.field_case("199")
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_what_it_held(server, until, stream):
    before = requests(server)["aborted"]
    body = {"prompt": "Write a very long novel", "max_tokens": 2048, "ignore_eos": True, "stream": stream}
    if stream:
        with httpx.stream("POST", server.root + "/v1/completions", json=body, timeout=60) as answer:
            lines = answer.iter_lines()
            for _ in range(3):
                next(lines)
    else:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(server.root + "/v1/completions", json=body, timeout=httpx.Timeout(60, read=0.5))
    until(lambda: requests(server)["aborted"] == before + 1, "the request is aborted")
    until(lambda: not server.get("/get_load").json()[0]["num_reqs"], "the worker has let it go")
    assert server.get("/health").status_code == 200


@pytest.mark.field_case("182")
def test_an_adapter_that_is_not_loaded_is_named(server, client):
    messages = [{"role": "user", "content": "hi"}]
    with pytest.raises(openai.NotFoundError, match="nope"):
        client.chat.completions.create(model=f"{server.model}:nope", messages=messages)
    with pytest.raises(openai.BadRequestError, match="lora_path"):
        client.chat.completions.create(model=server.model, messages=messages, extra_body={"lora_path": "nope"})


@pytest.mark.field_case("200", "202")
def test_nothing_is_left_when_all_have_gone(server, until):
    counts = requests(server)
    assert counts.pop("accepted") == sum(counts.values())
    until(lambda: used_tokens(server) == 0, "the load report says that no token is used")
