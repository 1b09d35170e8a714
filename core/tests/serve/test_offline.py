"""Engine without a server, on the null platform in this process; sgl generate on top of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sgl_core.cli.generate import main as generate_main
from sgl_core.serve import Engine
from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.testing import save_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def engine(model: Path) -> Iterator[Engine]:
    with Engine(str(model), inline=True, device="null") as made:
        yield made


GREEDY = {"max_new_tokens": 6, "temperature": 0, "ignore_eos": True}


def test_one_and_several(engine: Engine) -> None:
    one = engine.generate("hello", GREEDY)
    assert one["meta_info"]["completion_tokens"] == 6
    first, second = engine.generate(["hello", "world"], GREEDY)
    assert first["output_ids"] == one["output_ids"] != second["output_ids"]
    ids = engine.encode("hello")
    assert engine.generate(input_ids=ids, sampling_params=GREEDY)["output_ids"] == one["output_ids"]
    assert engine.generate(input_ids=[np.array(ids)], sampling_params=[GREEDY])[0]["output_ids"] == one["output_ids"]


def test_streams_join_to_the_plain_answer(engine: Engine) -> None:
    plain = engine.generate("hello", GREEDY)
    updates = list(engine.generate("hello", GREEDY, stream=True))
    assert updates[-1]["text"] == plain["text"]
    assert updates[-1]["meta_info"]["finish_reason"] == plain["meta_info"]["finish_reason"]
    early = engine.generate("hello", {**GREEDY, "max_new_tokens": 400}, stream=True)
    next(early)
    early.close()
    assert engine.generate("hello", GREEDY)["text"] == plain["text"]


def test_chat_and_its_stream(engine: Engine) -> None:
    messages = [{"role": "user", "content": "hi"}]
    options = {"max_tokens": 5, "temperature": 0, "ignore_eos": True}
    answer = engine.chat(messages, **options)
    assert answer["usage"]["completion_tokens"] == 5
    assert "".join(engine.chat_stream(messages, **options)) == answer["choices"][0]["message"]["content"]
    assert engine.encode_chat(messages) == engine.encode("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")


def test_vectors(engine: Engine) -> None:
    vectors = engine.embed(["a", "b"])
    assert len(vectors) == 2
    assert len(vectors[0]) == len(vectors[1]) > 1
    assert engine.embed("a")[0] == vectors[0]


@pytest.mark.anyio
async def test_from_an_event_loop(engine: Engine) -> None:
    plain = engine.generate("hello", GREEDY)
    assert (await engine.async_generate("hello", GREEDY))["output_ids"] == plain["output_ids"]
    answer = await engine.async_chat([{"role": "user", "content": "hi"}], max_tokens=2)
    assert answer["usage"]["completion_tokens"] <= 2
    assert await engine.async_embed("a") == engine.embed("a")


@pytest.mark.field_case("7")
def test_bad_requests_name_their_field_and_leave_the_engine_well(engine: Engine) -> None:
    for call, field in (
        (lambda: engine.generate(""), "text"),
        (lambda: engine.generate(input_ids=[[1], []]), "input_ids"),
        (lambda: engine.generate("a", {"temperature": -1}), "temperature"),
        (lambda: engine.chat([]), "messages"),
        (lambda: engine.chat([{"role": "user", "content": "a"}], n=0), "n"),
    ):
        with pytest.raises(RequestError) as error:
            call()
        assert error.value.param == field
    assert engine.generate("hello", GREEDY)["text"]
    engine.flush_cache()
    assert engine.server_info()["capacity"]["page_size"]


def test_sgl_generate(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = tmp_path / "prompts.jsonl"
    rows = [{"prompt": "hello", "id": 7}, {"messages": [{"role": "user", "content": "hi"}]}]
    prompts.write_text("\n".join(json.dumps(row) for row in rows))
    common = [str(model), "--device", "null", "--inline", "--max-tokens", "4", "--temperature", "0", "--ignore-eos"]
    out = tmp_path / "out.jsonl"
    assert generate_main([*common, "--file", str(prompts), "--json", "--output", str(out)]) == 0
    answers = [json.loads(line) for line in out.read_text().splitlines()]
    assert [answer["completion_tokens"] for answer in answers] == [4, 4]
    assert answers[0]["id"] == 7
    assert generate_main([*common, "--prompt", "hello"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == answers[0]["text"].rstrip("\n")


def test_sgl_generate_refuses_with_a_message(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"prompt": "a"}\n{"text": "b"}')
    assert generate_main([str(model), "--file", str(bad)]) == 2
    assert "line 2" in capsys.readouterr().err
    assert generate_main([str(model), "--prompt", "a", "--no-such-flag"]) == 2
    assert "--no-such-flag" in capsys.readouterr().err
    assert generate_main([str(model), "--device", "null", "--inline", "--prompt", "a", "--temperature", "-1"]) == 1
    assert "temperature" in capsys.readouterr().err
