"""The default model through HTTP: sensible English by the official client, transformers' greedy tokens, cached prefixes, no leaks."""

from __future__ import annotations

import concurrent.futures
import random

import openai
import pytest
import torch

PROMPTS = [
    "The capital of France is",
    "Water boils at a temperature of",
    "Once upon a time, in a small village,",
    "def fibonacci(n):\n    ",
    "The three primary colours are",
    "A recipe for pancakes: first,",
    "In 1969, humans first",
    "The difference between a list and a tuple in Python is",
    "Photosynthesis is the process by which",
    "Dear Sir or Madam,\n",
]


ROUNDING = 3e-4
"""Nats by which fp32 sums of another order may move a log-probability: 3.4e-5 at most under generic, avx2 and amx."""


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server.root}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def exact(start_server):
    """A server whose products keep fp32 activations, as transformers' do."""
    return start_server("--cpu-exact-activations")


def scores(model, ids: list[int], tokens: list[int]) -> torch.Tensor:
    """transformers' log-probabilities, [token, vocabulary], at the place of each of ``tokens`` behind ``ids``."""
    with torch.inference_mode():
        return model(torch.tensor([ids + tokens])).logits[0, len(ids) - 1 : -1].log_softmax(-1)


def test_the_sample_chat_makes_sense(client, server, reference):
    """The words are this machine's, since 8-bit activations round as its kernels do; each is nearly the first choice of fp32."""
    messages = [{"role": "user", "content": "Why is the sky blue?"}]
    answer = client.chat.completions.create(
        model=server.model, messages=messages, max_tokens=64, temperature=0, extra_body={"ignore_eos": True}
    )
    ids = server.post("/tokenize", {"messages": messages}).json()["tokens"]
    sampling = {"temperature": 0, "max_new_tokens": 64, "ignore_eos": True}
    native = server.post("/generate", {"input_ids": ids, "sampling_params": sampling}).json()
    assert answer.choices[0].message.content == native["text"]
    tokens = torch.tensor(native["output_ids"])
    wanted = scores(reference[0], ids, native["output_ids"])
    assert (wanted.amax(-1) - wanted[torch.arange(64), tokens]).max() < 1


def test_a_stream_joined_is_the_plain_answer(client, server):
    asked = {
        "model": server.model,
        "messages": [{"role": "user", "content": "Name three colours."}],
        "max_tokens": 48,
        "temperature": 0,
    }
    plain = client.chat.completions.create(**asked)
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    joined = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert joined == plain.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == [
        plain.choices[0].finish_reason
    ]


def test_greedy_tokens_are_those_of_transformers(exact, reference):
    """Each of our 64 tokens has transformers' log-probability, and none has a better one there: greedy decoding, step by step.

    Both within the rounding of fp32 sums, which decides between two tokens that are as likely.
    """
    model, tokenizer = reference
    sampling = {"temperature": 0, "max_new_tokens": 64, "ignore_eos": True}
    for prompt in PROMPTS:
        ids = tokenizer.encode(prompt)
        answer = exact.post("/generate", {"input_ids": ids, "sampling_params": sampling, "return_logprob": True}).json()
        wanted = scores(model, ids, answer["output_ids"])
        own = wanted[torch.arange(64), torch.tensor(answer["output_ids"])]
        ours = torch.tensor([entry[0] for entry in answer["meta_info"]["output_token_logprobs"]])
        torch.testing.assert_close(ours, own, rtol=0, atol=ROUNDING)
        assert (wanted.amax(-1) - own).max() < ROUNDING


def test_a_shared_prefix_is_served_from_the_cache(client, server):
    words = random.Random(7)
    prefix = " ".join(words.choice(["red", "green", "blue", "tall", "small", "old", "new"]) for _ in range(1500))
    first = server.post("/v1/completions", {"model": server.model, "prompt": prefix, "max_tokens": 1}).json()
    second = server.post("/v1/completions", {"model": server.model, "prompt": prefix + " end", "max_tokens": 1}).json()
    assert first["usage"]["prompt_tokens"] >= 1500
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= 1490


@pytest.mark.field_case("133")
def test_answers_do_not_depend_on_company_and_nothing_leaks(server, until):
    def ask(prompt: str) -> list[int]:
        body = {"text": prompt, "sampling_params": {"temperature": 0, "max_new_tokens": 24, "ignore_eos": True}}
        return server.post("/generate", body).json()["output_ids"]

    alone = [ask(p) for p in PROMPTS]
    with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        together = list(pool.map(ask, PROMPTS))
    assert together == alone
    assert server.post("/flush_cache", {}).status_code == 200
    until(
        lambda: server.get("/get_load").json()[0]["num_used_tokens"] == 0, "the load report says that no token is used"
    )
    used = [line for line in server.get("/metrics").text.splitlines() if line.startswith("sglang:num_used_tokens")]
    assert [float(line.split()[-1]) for line in used] == [0]


@pytest.mark.field_case("13")
def test_a_bad_request_disturbs_nobody(client, server):
    stream = client.completions.create(
        model=server.model,
        prompt=PROMPTS[2],
        max_tokens=64,
        temperature=0,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    pieces = [next(stream).choices[0].text]
    bad = {"model": server.model, "messages": [{"role": "user", "content": "x"}], "logit_bias": {"999999": 1}}
    refused = server.post("/v1/chat/completions", bad)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "logit_bias"
    pieces += [c.choices[0].text for c in stream if c.choices]
    plain = client.completions.create(
        model=server.model, prompt=PROMPTS[2], max_tokens=64, temperature=0, extra_body={"ignore_eos": True}
    )
    assert "".join(pieces) == plain.choices[0].text
    assert server.get("/health").status_code == 200


@pytest.mark.field_case("14")
def test_case_14_logit_bias_has_its_effect(server):
    def ids(**more) -> list[int]:
        body = {
            "text": "The sun is",
            "sampling_params": {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True, **more},
        }
        return server.post("/generate", body).json()["output_ids"]

    first = ids()[0]
    assert ids(logit_bias={str(first): -100})[0] != first
    assert ids(logit_bias={"1234": 100}) == [1234] * 4


@pytest.mark.field_case("52", "53")
def test_cases_52_and_53_a_seed_holds_whoever_shares_the_batch(server):
    def ask(prompt: str, **more) -> str:
        body = {
            "model": server.model,
            "prompt": prompt,
            "temperature": 0.8,
            "max_tokens": 16,
            "ignore_eos": True,
            **more,
        }
        return server.post("/v1/completions", body).json()["choices"][0]["text"]

    alone = ask("The capital of France is", seed=42)
    for _ in range(4):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            seeded = pool.submit(ask, "The capital of France is", seed=42)
            pool.submit(ask, "The capital of Germany is")
            assert seeded.result() == alone
    drawn = [ask("generate a uuid. UUID:", seed=seed, temperature=1.0) for seed in range(8)]
    assert ask("generate a uuid. UUID:", seed=0, temperature=1.0) == drawn[0]
    assert len(set(drawn)) > 1
