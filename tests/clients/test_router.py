"""The reference's router before two of our servers: it learns what they serve, keeps to cached prefixes, and passes streams on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import httpx
import openai
import pytest

PROMPT = "You are a careful librarian. " * 12


@pytest.fixture(scope="module")
def workers(start_server):
    return [start_server("--max-total-tokens", "20000") for _ in range(2)]


@pytest.fixture(scope="module")
def router(workers, client_program, free_port, until, tmp_path_factory):
    """The router's address; it ends with the module."""
    port, prometheus = free_port(), free_port()
    words = [client_program("router"), "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(port)]
    words += ["--policy", "cache_aware", "--prometheus-port", str(prometheus)]
    words += ["--worker-urls", *(worker.root for worker in workers)]
    log = tmp_path_factory.mktemp("router") / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out)
    try:
        root = f"http://127.0.0.1:{port}"
        until(lambda: knows(root, len(workers), process, log), "the router knows its workers", 180)
        yield root
    finally:
        process.terminate()
        process.wait(30)


def knows(root: str, count: int, process: subprocess.Popen[bytes], log: Path) -> bool:
    """Whether the router has so many workers; it learns of them in the background."""
    assert process.poll() is None, log.read_text()[-3000:]
    try:
        return bool(httpx.get(f"{root}/workers", timeout=10).json()["total"] == count)
    except httpx.TransportError:
        return False


def prompts_of(worker) -> float:
    found = re.findall(r"^sglang:num_requests_total\S* (\S+)$", worker.get("/metrics").text, re.MULTILINE)
    return sum(map(float, found))


def test_it_learns_what_is_served(workers, router):
    found = httpx.get(f"{router}/workers").json()["workers"]
    assert {worker["model_id"] for worker in found} == {workers[0].model}
    assert all(worker["is_healthy"] for worker in found)
    with openai.OpenAI(base_url=f"{router}/v1", api_key="none") as client:
        assert workers[0].model in [model.id for model in client.models.list()]


def test_answers_and_streams_pass_through(workers, router):
    asked = {"messages": [{"role": "user", "content": "Name three colours."}], "max_tokens": 24, "temperature": 0}
    direct = workers[0].post("/v1/chat/completions", asked).json()["choices"][0]["message"]["content"]
    with openai.OpenAI(base_url=f"{router}/v1", api_key="none", max_retries=0) as client:
        plain = client.chat.completions.create(model=workers[0].model, **asked)
        chunks = list(client.chat.completions.create(model=workers[0].model, stream=True, **asked))
        with pytest.raises(openai.BadRequestError, match="top_p"):
            client.chat.completions.create(model=workers[0].model, **asked, top_p=7)
    assert plain.choices[0].message.content == direct
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == direct
    native = {"text": "The capital of France is", "sampling_params": {"max_new_tokens": 4, "temperature": 0}}
    through = httpx.post(f"{router}/generate", json=native, timeout=60).json()
    assert through["text"] == workers[0].post("/generate", native).json()["text"]


def test_requests_of_one_prefix_stay_with_one_worker(workers, router):
    before = [prompts_of(worker) for worker in workers]
    cached = []
    for number in range(8):
        body = {"model": workers[0].model, "prompt": f"{PROMPT}Question {number}:", "max_tokens": 4}
        answer = httpx.post(f"{router}/v1/completions", json=body, timeout=60).json()
        cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
    grown = sorted(prompts_of(worker) - start for worker, start in zip(workers, before, strict=True))
    assert grown == [0, 8]
    assert min(cached[1:]) > 60
