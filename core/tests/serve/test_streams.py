"""Streams: joined they equal the plain answer (R8), and their envelope is what clients expect (cases 2, 26, 28, 32, 46, 50)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from sgl_core.serve.testing import says

pytestmark = pytest.mark.anyio

CHAT, TEXT, NATIVE = "/v1/chat/completions", "/v1/completions", "/generate"
STORY = "Once upon a time, \u4e16\u754c and \U0001f923 met.\nThe end"
MESSAGES = [{"role": "user", "content": "hi"}]
STOPS: list[dict[str, Any]] = [
    {},
    {"stop": ["met"]},
    {"stop": ["\n"]},
    {"stop": [" 世界 and "]},
    {"stop": ["zzzz", "The endless"]},
    {"stop_regex": "m.t"},
    {"stop": ["met"], "no_stop_trim": True},
    {"max_tokens": 5},
    {"max_tokens": 19},
    {"ignore_eos": True, "max_tokens": 60},
]


def join_completion(events: list[Any], n: int = 1) -> list[dict[str, Any]]:
    out = [{"text": "", "logprobs": None, "finish_reason": None, "matched_stop": None} for _ in range(n)]
    for event in events:
        for choice in event["choices"]:
            mine = out[choice["index"]]
            assert mine["finish_reason"] is None
            mine["text"] += choice["text"]
            if choice["logprobs"] is not None:
                old = mine["logprobs"] or {key: [] for key in choice["logprobs"]}
                mine["logprobs"] = {key: old[key] + choice["logprobs"][key] for key in old}
            if choice["finish_reason"] is not None:
                mine["finish_reason"], mine["matched_stop"] = choice["finish_reason"], choice["matched_stop"]
    return out


def join_chat(events: list[Any], n: int = 1) -> list[dict[str, Any]]:
    out = [{"content": "", "logprobs": [], "finish_reason": None, "roles": 0} for _ in range(n)]
    for event in events:
        for choice in event["choices"]:
            mine = out[choice["index"]]
            assert mine["finish_reason"] is None
            mine["content"] += choice["delta"].get("content") or ""
            mine["roles"] += "role" in choice["delta"]
            mine["logprobs"] += (choice["logprobs"] or {}).get("content", [])
            mine["finish_reason"] = choice["finish_reason"]
    assert all(mine["roles"] == 1 for mine in out)
    return out


@pytest.mark.field_case("2", "4", "31", "46")
@pytest.mark.parametrize("chunk", [1, 3, 100])
@pytest.mark.parametrize("extra", STOPS, ids=str)
async def test_completions_stream_equals_plain(serve, tokenizer, extra: dict[str, Any], chunk: int) -> None:
    script = says(tokenizer.encode(STORY, False), eos=tokenizer.eos_token_ids[0], chunk=chunk)
    async with serve(script) as api:
        for echo, logprobs in itertools.product((False, True), (None, 0, 2)):
            body = {
                "prompt": "Warsaw is",
                "max_tokens": 100,
                "temperature": 0,
                "echo": echo,
                "logprobs": logprobs,
                **extra,
            }
            plain = (await api.post(TEXT, body)).json()
            events = await api.events(TEXT, {**body, "stream_options": {"include_usage": True}})
            joined = join_completion(events[:-1])[0]
            choice = plain["choices"][0]
            assert joined == {key: choice[key] for key in joined}
            assert events[-1]["choices"] == []
            assert events[-1]["usage"] == plain["usage"]
            assert all(event["usage"] is None for event in events[:-1])
            if logprobs is not None:
                assert len({len(values) for values in choice["logprobs"].values()}) == 1


@pytest.mark.field_case("4", "32")
@pytest.mark.parametrize("extra", STOPS, ids=str)
async def test_chat_stream_equals_plain(serve, extra: dict[str, Any]) -> None:
    async with serve() as api:
        for logprobs in ({}, {"logprobs": True}, {"logprobs": True, "top_logprobs": 3}):
            body = {"messages": MESSAGES, **logprobs, **extra}
            plain = (await api.post(CHAT, body)).json()
            events = await api.events(CHAT, {**body, "stream_options": {"include_usage": True}})
            joined = join_chat(events[:-1])[0]
            choice = plain["choices"][0]
            assert joined["content"] == choice["message"]["content"]
            assert joined["finish_reason"] == choice["finish_reason"]
            assert joined["logprobs"] == ((choice["logprobs"] or {}).get("content") or [])
            assert events[-1]["usage"] == plain["usage"]
            if logprobs:
                assert len(joined["logprobs"]) == plain["usage"]["completion_tokens"]


@pytest.mark.field_case("29")
@pytest.mark.parametrize("extra", STOPS, ids=str)
async def test_native_stream_equals_plain(serve, extra: dict[str, Any]) -> None:
    names = {"max_tokens": "max_new_tokens"}
    sampling = {"max_new_tokens": 100, **{names.get(key, key): value for key, value in extra.items()}}
    async with serve() as api:
        body = {
            "text": "Warsaw is",
            "sampling_params": sampling,
            "return_logprob": True,
            "logprob_start_len": 0,
            "top_logprobs_num": 2,
        }
        plain = (await api.post(NATIVE, body)).json()
        for incremental in (False, True):
            events = await api.events(NATIVE, {**body, "incremental": incremental})
            last = events[-1]
            if incremental:
                last["text"] = "".join(event["text"] for event in events)
                last["output_ids"] = [token for event in events for token in event["output_ids"]]
            for answer in (plain, last):
                answer["meta_info"].pop("e2e_latency", None)
                answer["meta_info"].pop("id", None)
            assert last == plain
            assert all(event["meta_info"]["finish_reason"] is None for event in events[:-1])


@pytest.mark.field_case("1")
async def test_case_1_echo_with_max_tokens_0(serve) -> None:
    async with serve() as api:
        body = {"prompt": "Your answer: Yes", "max_tokens": 0, "echo": True, "logprobs": 1, "temperature": 0}
        plain = (await api.post(TEXT, body)).json()
        choice = plain["choices"][0]
        assert choice["text"] == "Your answer: Yes"
        assert choice["finish_reason"] == "length"
        assert plain["usage"]["completion_tokens"] == 0
        values = choice["logprobs"]["token_logprobs"]
        assert values[0] is None
        assert all(isinstance(value, float) for value in values[1:])
        assert "".join(choice["logprobs"]["tokens"]) == "Your answer: Yes"
        assert choice["logprobs"]["top_logprobs"][0] is None
        assert join_completion(await api.events(TEXT, body))[0]["text"] == choice["text"]
        before = len(api.channel.sent)
        quiet = (await api.post(TEXT, {**body, "logprobs": None})).json()
        assert quiet["choices"][0]["text"] == "Your answer: Yes"
        assert len(api.channel.sent) == before


@pytest.mark.field_case("31")
async def test_text_offsets_point_at_the_tokens(serve) -> None:
    async with serve() as api:
        for echo in (False, True):
            body = {"prompt": "Warsaw is", "max_tokens": 12, "echo": echo, "logprobs": 1}
            choice = (await api.post(TEXT, body)).json()["choices"][0]
            for token, offset in zip(choice["logprobs"]["tokens"], choice["logprobs"]["text_offset"], strict=True):
                if "\ufffd" not in token:
                    assert choice["text"][offset : offset + len(token)] == token


@pytest.mark.field_case("5")
async def test_case_5_what_cannot_be_reached_is_finite(serve) -> None:
    async with serve() as api:
        chat = (
            await api.post(CHAT, {"messages": MESSAGES, "logprobs": True, "top_logprobs": 3, "max_tokens": 2})
        ).json()
        entry = chat["choices"][0]["logprobs"]["content"][0]
        assert entry["top_logprobs"][1]["logprob"] == -9999.0
        assert bytes(entry["bytes"]).decode() == entry["token"]
        native = {"text": "x", "return_logprob": True, "top_logprobs_num": 5, "sampling_params": {"max_new_tokens": 2}}
        meta = (await api.post(NATIVE, native)).json()["meta_info"]
        assert meta["output_top_logprobs"][0][1][0] is None


@pytest.mark.field_case("26")
async def test_case_26_usage_only_where_asked(serve) -> None:
    async with serve() as api:
        for route, base in ((CHAT, {"messages": MESSAGES}), (TEXT, {"prompt": "hi"})):
            for options in ({}, {"stream_options": {"include_usage": False}}, {"stream_options": None}):
                events = await api.events(route, {**base, **options})
                assert all("usage" not in event and event["choices"] for event in events)
            always = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
            events = await api.events(route, {**base, **always})
            counts = [event["usage"]["completion_tokens"] for event in events]
            assert counts == sorted(counts)
            assert counts[-1] == counts[-2]


@pytest.mark.field_case("28")
async def test_case_28_n_choices_and_one_end_mark(serve) -> None:
    async with serve() as api:
        for n in (2, 3):
            plain = (await api.post(CHAT, {"messages": MESSAGES, "n": n})).json()
            assert [choice["index"] for choice in plain["choices"]] == list(range(n))
            joined = join_chat(await api.events(CHAT, {"messages": MESSAGES, "n": n}), n)
            assert [mine["content"] for mine in joined] == [c["message"]["content"] for c in plain["choices"]]
            assert plain["usage"]["prompt_tokens"] * (n > 1) < plain["usage"]["total_tokens"]
        assert plain["usage"]["completion_tokens"] % 3 == 0


async def test_a_batch_of_prompts_numbers_its_choices(serve) -> None:
    async with serve() as api:
        body = {"prompt": ["one", "two!"], "n": 2, "echo": True, "max_tokens": 3}
        plain = (await api.post(TEXT, body)).json()
        assert [choice["text"][:3] for choice in plain["choices"]] == ["one", "one", "two", "two"]
        assert plain["usage"]["prompt_tokens"] == 7
        assert [mine["text"] for mine in join_completion(await api.events(TEXT, body), 4)] == [
            c["text"] for c in plain["choices"]
        ]
        ids = (await api.post(TEXT, {**body, "prompt": [[100, 101], [102]]})).json()
        assert len(ids["choices"]) == 4


@pytest.mark.field_case("32")
async def test_case_32_the_end_comes_once_with_logprobs(serve) -> None:
    async with serve() as api:
        body = {"messages": MESSAGES, "max_tokens": 30, "logprobs": True, "top_logprobs": 1}
        events = await api.events(CHAT, body)
        assert sum(choice["finish_reason"] is not None for event in events for choice in event["choices"]) == 1


@pytest.mark.field_case("50")
async def test_case_50_no_useless_empty_deltas(serve) -> None:
    async with serve() as api:
        events = await api.events(CHAT, {"messages": MESSAGES, "stop": ["###"], "logprobs": True})
        deltas = [event["choices"][0]["delta"] for event in events]
        assert deltas[0] == {"role": "assistant", "content": ""}
        assert deltas[-1] == {}
        assert all(delta["content"] for delta in deltas[1:-1])


@pytest.mark.field_case("61")
async def test_case_61_bytes_of_partial_tokens(serve) -> None:
    async with serve() as api:
        chat = (
            await api.post(CHAT, {"messages": MESSAGES, "logprobs": True, "ignore_eos": True, "max_tokens": 60})
        ).json()
        raw = b"".join(bytes(entry["bytes"]) for entry in chat["choices"][0]["logprobs"]["content"])
        text = raw.decode("utf-8", "replace").replace("<|im_end|>", "")
        assert text == chat["choices"][0]["message"]["content"]


async def test_a_stop_ends_the_request_in_the_worker_too(serve) -> None:
    async with serve() as api:
        answer = (await api.post(TEXT, {"prompt": "hi", "stop": "upon", "max_tokens": 50})).json()
        assert answer["choices"][0]["text"] == "Once "
        assert answer["choices"][0]["matched_stop"] == "upon"
        assert answer["usage"]["completion_tokens"] == 2
        assert api.channel.sent[-1].reason == "stop"
        assert api.service.front.running == 0


@pytest.mark.field_case("56")
async def test_stop_token_ids_and_case_56_ignore_eos(serve, tokenizer) -> None:
    comma = tokenizer.encode(",", False)[0]
    async with serve() as api:
        answer = (await api.post(TEXT, {"prompt": "hi", "stop_token_ids": [comma], "max_tokens": 50})).json()
        assert answer["choices"][0]["text"] == "Once upon a time"
        assert answer["choices"][0]["matched_stop"] == comma
        answer = (await api.post(TEXT, {"prompt": "hi", "max_tokens": 200, "ignore_eos": True})).json()
        assert answer["usage"]["completion_tokens"] == 200
        assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.field_case("53")
async def test_seeds_reach_every_choice_case_53(serve) -> None:
    async with serve() as api:
        await api.post(TEXT, {"prompt": "hi", "seed": 7, "n": 3})
        await api.post(CHAT, {"messages": MESSAGES, "seed": 7})
        await api.post(NATIVE, {"text": "hi", "sampling_params": {"sampling_seed": 7}})
        assert [message.sampling.seed for message in api.channel.generated()] == [7, 8, 9, 7, 7]


async def test_answer_ids_can_be_chosen_and_are_unique(serve) -> None:
    async with serve() as api:
        first, second = [(await api.post(CHAT, {"messages": MESSAGES})).json()["id"] for _ in range(2)]
        assert first != second
        assert (await api.post(CHAT, {"messages": MESSAGES, "rid": "mine"})).json()["id"] == "mine"
        events = await api.events(CHAT, {"messages": MESSAGES})
        assert len({event["id"] for event in events}) == 1


@pytest.mark.field_case("161")
async def test_case_161_one_bos_on_every_path(serve) -> None:
    from sgl_core.serve.testing import CHATML, byte_tokenizer

    tokenizer = byte_tokenizer(add_bos=True, template="{{ bos_token }}" + CHATML)
    bos = tokenizer.bos_token_id
    async with serve(with_tokenizer=tokenizer) as api:
        await api.post(CHAT, {"messages": MESSAGES})
        await api.post(TEXT, {"prompt": "hi"})
        await api.post(TEXT, {"prompt": "<s>hi"})
        await api.post(NATIVE, {"text": "hi"})
        for message in api.channel.generated():
            assert message.input_ids.count(bos) == 1
            assert message.input_ids[0] == bos
        for body in ({"messages": MESSAGES}, {"prompt": "hi"}):
            assert (await api.post("/tokenize", body)).json()["tokens"].count(bos) == 1


async def test_completions_take_the_native_names_of_prompt_and_limit(serve) -> None:
    async with serve() as api:
        for body in ({"text": "hi"}, {"text": "no", "prompt": "hi"}):
            limit = {"max_new_tokens": 5, "ignore_eos": True}
            assert (await api.post(TEXT, {**body, **limit})).json()["usage"]["completion_tokens"] == 5
            assert api.channel.generated()[-1].input_ids == api.tokenizer.encode("hi", False)
        for bad, field in (
            ({"text": " "}, "text"),
            ({"text": "hi", "max_new_tokens": 9999}, "max_new_tokens"),
            ({}, "prompt"),
        ):
            refused = await api.post(TEXT, bad)
            assert refused.status_code == 400
            assert refused.json()["error"]["param"] == field


async def test_an_extra_key_parts_prefixes_on_every_route(serve) -> None:
    async with serve() as api:
        prompts = {
            CHAT: {"messages": MESSAGES},
            TEXT: {"prompt": "hi"},
            "/v1/responses": {"input": "hi"},
            NATIVE: {"text": "hi"},
        }
        for route, body in prompts.items():
            assert (await api.post(route, {**body, "extra_key": "mine"})).status_code == 200
            assert api.channel.generated()[-1].cache_salt == "mine", route
