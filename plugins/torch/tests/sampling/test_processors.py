"""Processors in a batch: groups, failures that stay with their request, greedy rows beside drawn ones, histories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from sgl_torch.sampling import Sampler
from sgl_torch.sampling.processors import ProcessorRow

Make = Callable[..., Sampler]
LOGITS = [0.0, 1.0, 2.0, 3.0]


def ban(logits: torch.Tensor, rows: list[ProcessorRow]) -> None:
    """Strikes out a token a row; raises for one that is none."""
    for line, row in enumerate(rows):
        logits[line, int(row.params["ban"])] = float("-inf")


def wants(ban_what: Any, **more: Any) -> dict[str, Any]:
    return {"temperature": 0.0, "processor": "ban", "custom_params": {"ban": ban_what}, **more}


def test_what_fails_for_one_row_fails_for_that_row(sampler_of: Make) -> None:
    sampler = sampler_of(4, wants(3), wants("no number"), {"temperature": 0.0}, wants(3), processors={"ban": ban})
    tokens, _ = sampler.sample(torch.tensor([LOGITS] * 4), [0, 1, 2, 3])
    assert list(sampler.errors) == [1]
    assert "ValueError: invalid literal" in sampler.errors[1]
    assert [tokens.tolist()[row] for row in (0, 2, 3)] == [2, 3, 2]
    sampler.free(1)
    sampler.sample(torch.tensor([LOGITS] * 3), [0, 2, 3])
    assert not sampler.errors


@pytest.mark.parametrize("wrong", ["text", torch.zeros(3), torch.zeros(1, 3)], ids=["text", "flat", "narrow"])
def test_an_answer_of_another_shape_is_a_failure(sampler_of: Make, wrong: Any) -> None:
    sampler = sampler_of(4, wants(3), {"temperature": 0.0}, processors={"ban": lambda logits, rows: wrong})
    tokens, _ = sampler.sample(torch.tensor([LOGITS] * 2), [0, 1])
    assert list(sampler.errors) == [0]
    assert "for logits [1, 4]" in sampler.errors[0]
    assert tokens.tolist()[1] == 3


def test_rows_of_one_processor_are_edited_in_one_call(sampler_of: Make) -> None:
    calls: list[int] = []

    def count(logits: torch.Tensor, rows: list[ProcessorRow]) -> None:
        calls.append(len(rows))

    sampler = sampler_of(4, *[wants(0)] * 3, {"temperature": 0.0}, wants(0), processors={"ban": count})
    sampler.sample(torch.tensor([LOGITS] * 5), [0, 1, 2, 3, 4])
    assert calls == [4]


def test_a_processor_sees_prompt_and_output(sampler_of: Make) -> None:
    seen: list[tuple[list[int], list[int], int]] = []

    def look(logits: torch.Tensor, rows: list[ProcessorRow]) -> None:
        seen.extend((list(row.prompt_ids), list(row.output_ids), row.generated) for row in rows)

    sampler = sampler_of(4, wants(0, prompt=(8, 9), output=(1,)), processors={"ban": look})
    for _ in range(3):
        sampler.sample(torch.tensor([LOGITS]), [0])
    assert seen == [([8, 9], [1], 1), ([8, 9], [1, 3], 2), ([8, 9], [1, 3, 3], 3)]


def test_the_mask_of_a_grammar_has_the_last_word(sampler_of: Make) -> None:
    import numpy as np

    sampler = sampler_of(4, wants(1), processors={"ban": lambda logits, rows: torch.tensor([[0.0, 0.0, 0.0, 9.0]])})
    tokens, _ = sampler.sample(torch.tensor([LOGITS]), [0], np.array([[0b0011]], np.int32), [0])
    assert tokens.tolist() == [0]


def test_greedy_stays_greedy_beside_rows_that_draw(sampler_of: Make) -> None:
    """A merged batch is all-greedy only if every row is; each row keeps its own flag as rows come and go."""
    sampler = sampler_of(
        4,
        {"temperature": 0.0},
        {"temperature": 5.0, "seed": 1},
        {"temperature": 2.0, "top_k": 1},
        wants(3),
        {"temperature": 5.0, "seed": 2},
        processors={"ban": ban},
    )
    drawn = []
    for _ in range(50):
        tokens, _ = sampler.sample(torch.tensor([LOGITS] * 5), [0, 1, 2, 3, 4])
        picked = tokens.tolist()
        assert [picked[row] for row in (0, 2, 3)] == [3, 3, 2]
        drawn.append((picked[1], picked[4]))
    assert len(set(drawn)) > 8
    alone, _ = sampler.sample(torch.tensor([LOGITS] * 3), [0, 2, 3])
    assert alone.tolist() == [3, 3, 2]
