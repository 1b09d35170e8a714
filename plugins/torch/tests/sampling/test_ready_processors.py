"""The ready logit processors: token bans, thinking budgets, n-grams; their parameters are checked at admission."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from sgl_torch.sampling import Sampler, ready_processors
from sgl_torch.sampling.processors import ProcessorRow

Make = Callable[..., Sampler]
NEG = float("-inf")
GREEDY = {"temperature": 0.0, "processor": "it"}
MARKS = {"thinking_start_token_id": 1, "thinking_end_token_id": 2, "new_line_token_id": 3}


def row(params: dict[str, Any], prompt: tuple[int, ...] = (), output: tuple[int, ...] = ()) -> ProcessorRow:
    return ProcessorRow(rid="r", slot=0, generated=len(output), params=params, prompt_ids=prompt, output_ids=output)


def drawn(sampler: Sampler, logits: list[list[float]]) -> list[int]:
    tokens, _ = sampler.sample(torch.tensor(logits), list(range(len(logits))))
    assert not sampler.errors
    return list(tokens.tolist())


def test_tokens_are_disallowed_each_row_by_its_own_list(sampler_of: Make) -> None:
    rows = [{**GREEDY, "custom_params": {"token_ids": ids}} for ids in ([3], [3, 2], [0])]
    sampler = sampler_of(4, *rows, processors={"it": ready_processors.DisallowedTokens()})
    assert drawn(sampler, [[0.0, 1.0, 2.0, 3.0]] * 3) == [2, 1, 3]


def test_only_allowed_tokens_are_drawn(sampler_of: Make) -> None:
    rows = [{**GREEDY, "custom_params": {"token_ids": ids}} for ids in ([0, 1], [2])]
    sampler = sampler_of(4, *rows, processors={"it": ready_processors.AllowedTokens()})
    assert drawn(sampler, [[0.0, 1.0, 2.0, 3.0]] * 2) == [1, 2]


def test_thinking_ends_after_its_budget(sampler_of: Make) -> None:
    """Row 0 opens its thinking in the prompt, row 1 itself; row 2 thinks without a budget of its own to meet; row 3 not at all."""
    wants = [{"thinking_budget": budget, **MARKS} for budget in (2, 3, 99, 0)]
    prompts = [(7, 1), (7,), (1,), (7,)]
    rows = [{**GREEDY, "custom_params": p, "prompt": prompt} for p, prompt in zip(wants, prompts, strict=True)]
    sampler = sampler_of(9, *rows, processors={"it": ready_processors.ThinkingBudget()})
    flat = [0.0] * 5 + [9.0] + [0.0] * 3
    opens = [0.0, 9.0] + [0.0] * 7
    told = [drawn(sampler, [flat, opens if step == 0 else flat, flat, flat]) for step in range(8)]
    columns = list(zip(*told, strict=True))
    assert columns[0] == (5, 5, 3, 2, 5, 5, 5, 5)
    assert columns[1] == (1, 5, 5, 5, 3, 2, 5, 5)
    assert columns[2] == columns[3] == (5,) * 8


def test_a_resumed_request_has_thought_already(sampler_of: Make) -> None:
    params = {"thinking_budget": 2, **MARKS}
    sampler = sampler_of(
        9,
        {**GREEDY, "custom_params": params, "prompt": (1,), "output": (5, 5, 3)},
        processors={"it": ready_processors.ThinkingBudget()},
    )
    assert drawn(sampler, [[0.0] * 9]) == [2]


@pytest.mark.parametrize(
    ("family", "marks"),
    [("Qwen3ThinkingBudget", (151667, 151668, 198)), ("DeepSeekR1ThinkingBudget", (128798, 128799, 201))],
)
def test_families_bring_their_marks(family: str, marks: tuple[int, int, int]) -> None:
    processor = getattr(ready_processors, family)()
    start, end, line = marks
    params = {"thinking_budget": 1}
    processor.check(params, 152000)
    logits = torch.zeros(2, 152000)
    processor(logits, [row(params, (start,), (9,)), row(params, (start,), (9, line))])
    assert logits.argmax(-1).tolist() == [line, end]
    assert logits[0].isinf().sum() == 151999
    with pytest.raises(ValueError, match="not in this model's vocabulary of 49152"):
        processor.check(params, 49152)


def reference_bans(ids: list[int], size: int, window: int) -> set[int]:
    """Every continuation that would repeat an n-gram which begins within the window, by trying."""
    first = max(0, len(ids) - window)
    seen = [tuple(ids[at : at + size]) for at in range(first, len(ids) - size + 1)]
    return {token for token in range(12) if tuple([*ids, token][-size:]) in seen}


def test_no_ngram_comes_twice() -> None:
    rng = random.Random(3)
    processor = ready_processors.NoRepeatNgram()
    for _ in range(200):
        ids = tuple(rng.randrange(4) for _ in range(rng.randrange(1, 30)))
        size, window = rng.randrange(1, 4), rng.randrange(1, 30)
        params = {"ngram_size": size, "window_size": window, "whitelist_token_ids": [3]}
        logits = torch.zeros(1, 12)
        processor(logits, [row(params, ids[:3], ids[3:])])
        banned = set(logits[0].isinf().nonzero().squeeze(1).tolist())
        assert banned == reference_bans(list(ids), size, window) - {3}


@pytest.mark.parametrize(
    ("processor", "params", "message"),
    [
        ("DisallowedTokens", {}, "token_ids must be a list"),
        ("DisallowedTokens", {"token_ids": []}, "token_ids must be a list"),
        ("DisallowedTokens", {"token_ids": [9]}, "9 is not in the vocabulary"),
        ("AllowedTokens", {"token_ids": [True]}, "True is not in the vocabulary"),
        ("ThinkingBudget", {"thinking_budget": 4}, "thinking tokens"),
        ("ThinkingBudget", MARKS, "thinking_budget must be"),
        ("ThinkingBudget", {"thinking_budget": -1, **MARKS}, "thinking_budget must be"),
        ("NoRepeatNgram", {"ngram_size": 2}, "window_size must be"),
        ("NoRepeatNgram", {"ngram_size": 2, "window_size": 3, "whitelist_token_ids": "x"}, "whitelist_token_ids"),
    ],
)
def test_wrong_parameters_are_refused_at_admission(
    sampler_of: Make, processor: str, params: dict[str, Any], message: str
) -> None:
    made = getattr(ready_processors, processor)()
    with pytest.raises(ValueError, match=message):
        sampler_of(9, {**GREEDY, "custom_params": params}, processors={"it": made})
