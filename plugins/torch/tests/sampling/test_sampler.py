"""The sampler as a whole: greedy rows, mixed batches, seeds, bias, minimum length, processors, log-probabilities."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_core.api.sampling import LogprobOptions, SamplingParams
from sgl_core.api.worker import NewRequest
from sgl_torch.sampling import LOWEST_LOGPROB, Sampler
from sgl_torch.sampling.processors import ProcessorRow

Make = Callable[..., Sampler]
NEG = float("-inf")


def tokens(
    sampler: Sampler, logits: list[list[float]] | torch.Tensor, slots: list[int] | None = None, **masks: object
) -> list[int]:
    scores = torch.tensor(logits) if isinstance(logits, list) else logits.clone()
    rows = list(range(len(scores))) if slots is None else slots
    drawn, _ = sampler.sample(scores, rows, **masks)  # type: ignore[arg-type]
    assert drawn.dtype == torch.int64
    return drawn.tolist()


def bits(vocab: int, *allowed: set[int]) -> np.ndarray:
    words = np.zeros((len(allowed), -(-vocab // 32)), np.uint32)
    for row, ids in enumerate(allowed):
        for index in ids:
            words[row, index // 32] |= np.uint32(1 << index % 32)
    return words.view(np.int32)


@pytest.mark.field_case("146")
def test_greedy_takes_the_lowest_of_equals_in_a_mixed_batch(sampler_of: Make) -> None:
    sampler = sampler_of(
        3, {"temperature": 0.0, "top_p": 0.9}, {"seed": 1}, {"top_k": 1}, {"temperature": 0.0, "top_k": 5}
    )
    seen = set()
    for _ in range(40):
        drawn = tokens(sampler, [[1.0, 1.0, 0.0]] * 4)
        assert (drawn[0], drawn[2], drawn[3]) == (0, 0, 0)
        seen.add(drawn[1])
    assert seen == {0, 1, 2}


@pytest.mark.field_case("151")
def test_default_parameters_do_sample(sampler_of: Make) -> None:
    sampler = sampler_of(8, {})
    assert len({tokens(sampler, [[0.0] * 8])[0] for _ in range(30)}) > 1


@pytest.mark.field_case("145")
def test_greedy_and_sampled_rows_equal_their_solo_runs(sampler_of: Make) -> None:
    rows: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {"seed": 7},
        {"seed": 7, "top_p": 0.8, "temperature": 0.7},
        {},
        {"seed": 3, "top_k": 4, "min_p": 0.1},
    ]
    generator = torch.Generator().manual_seed(0)
    steps = [torch.randn(len(rows), 50, generator=generator) * 3 for _ in range(12)]
    together = sampler_of(50, *rows)
    joint = [tokens(together, logits) for logits in steps]
    for slot, row in enumerate(rows):
        if "seed" in row or "temperature" in row:
            alone = sampler_of(50, row)
            assert [tokens(alone, logits[slot : slot + 1])[0] for logits in steps] == [drawn[slot] for drawn in joint]


@given(data=st.data())
@settings(deadline=None, max_examples=40)
def test_a_row_does_not_depend_on_its_batch(data: st.DataObject) -> None:
    parameters = st.fixed_dictionaries(
        {
            "temperature": st.sampled_from([0.0, 0.3, 1.0, 2.5]),
            "top_k": st.sampled_from([0, 1, 2, 9, 10_000]),
            "top_p": st.sampled_from([0.05, 0.5, 0.9, 1.0]),
            "min_p": st.sampled_from([0.0, 0.2]),
            "frequency_penalty": st.sampled_from([0.0, 0.7]),
            "repetition_penalty": st.sampled_from([1.0, 1.3]),
            "seed": st.integers(-(2**63), 2**63),
        }
    )
    rows: list[dict[str, Any]] = data.draw(st.lists(parameters, min_size=2, max_size=5))
    vocab, steps = 40, 5
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    logits = (torch.randn(steps, len(rows), vocab, generator=generator) * 2).round()  # rounded: many ties

    def run(slots: list[int]) -> list[list[int]]:
        sampler = Sampler(vocab, len(rows))
        for slot in slots:
            sampler.admit(
                NewRequest(slot=slot, rid="r", prompt_ids=[1, 2], output_ids=[], sampling=SamplingParams(**rows[slot]))
            )
        return [sampler.sample(logits[step][slots].clone(), slots)[0].tolist() for step in range(steps)]

    joint = run(list(range(len(rows))))
    order = data.draw(st.permutations(range(len(rows))))
    shuffled = run(list(order))
    for step in range(steps):
        assert [shuffled[step][order.index(slot)] for slot in range(len(rows))] == joint[step]
    assert [drawn[0] for drawn in run([0])] == [drawn[0] for drawn in joint]


def test_seed_decides_with_the_count_only(sampler_of: Make) -> None:
    logits = torch.zeros(1, 1000)
    first = sampler_of(1000, {"seed": 42})
    whole = [tokens(first, logits)[0] for _ in range(10)]
    resumed = sampler_of(1000, {"seed": 42, "output": tuple(whole[:4])})  # a retracted request goes on where it was
    assert [tokens(resumed, logits)[0] for _ in range(6)] == whole[4:]
    other = sampler_of(1000, {"seed": 43})
    assert [tokens(other, logits)[0] for _ in range(10)] != whole


def test_rows_without_a_seed_differ_and_entropy_repeats_them(sampler_of: Make) -> None:
    logits = torch.zeros(2, 100_000)
    assert len({*tokens(sampler_of(100_000, {}, {}), logits), *tokens(sampler_of(100_000, {}, {}), logits)}) == 4
    assert tokens(sampler_of(100_000, {}, {}, entropy=5), logits) == tokens(
        sampler_of(100_000, {}, {}, entropy=5), logits
    )


@pytest.mark.field_case("14")
def test_logit_bias_bans_and_forces(sampler_of: Make) -> None:
    logits = [[0.0, 5.0, 3.0, 1.0]]
    assert tokens(sampler_of(4, {"temperature": 0.0}), logits) == [1]
    assert tokens(sampler_of(4, {"temperature": 0.0, "logit_bias": {1: -100.0}}), logits) == [2]
    forced = sampler_of(4, {"logit_bias": {3: 100.0}})
    assert [tokens(forced, logits) for _ in range(20)] == [[3]] * 20


def test_min_new_tokens_bans_ends_until_enough_are_out(sampler_of: Make) -> None:
    sampler = sampler_of(4, {"temperature": 0.0, "min_new_tokens": 2, "eos": (3,), "stop_token_ids": (2, 99)})
    assert [tokens(sampler, [[0.0, 1.0, 8.0, 9.0]])[0] for _ in range(3)] == [1, 1, 3]
    resumed = sampler_of(4, {"temperature": 0.0, "min_new_tokens": 2, "eos": (3,), "output": (1, 1)})
    assert tokens(resumed, [[0.0, 1.0, 8.0, 9.0]]) == [3]


def test_masks_bind_their_rows_only(sampler_of: Make) -> None:
    sampler = sampler_of(70, {"temperature": 0.0}, {"temperature": 0.0}, {"seed": 1})
    logits = torch.zeros(3, 70)
    logits[:, 5] = 9.0
    masks = bits(70, {69}, {3, 64})
    drawn = tokens(sampler, logits, masks=masks, mask_rows=[1, 2])
    assert drawn[:2] == [5, 69]
    assert drawn[2] in {3, 64}


def test_bias_cannot_undo_a_mask(sampler_of: Make) -> None:
    sampler = sampler_of(4, {"temperature": 0.0, "logit_bias": {0: 1000.0}})
    assert tokens(sampler, [[0.0] * 4], masks=bits(4, {2}), mask_rows=[0]) == [2]


@pytest.mark.parametrize("row", [{"temperature": 0.0}, {"seed": 1}, {"seed": 1, "top_p": 0.5}])
def test_nothing_allowed_gives_an_end_token_and_disturbs_nobody(sampler_of: Make, row: dict[str, object]) -> None:
    sampler = sampler_of(4, {**row, "eos": (3, 1)}, row, {"temperature": 0.0})
    assert tokens(sampler, [[0.0, 0.0, 7.0, 0.0]] * 3, masks=bits(4, set(), set()), mask_rows=[0, 1]) == [3, 0, 2]


def test_slots_are_reused_without_traces(sampler_of: Make) -> None:
    sampler = sampler_of(
        4, {"temperature": 0.0, "logit_bias": {1: -100.0}, "frequency_penalty": 2.0, "min_new_tokens": 5, "eos": (2,)}
    )
    for _ in range(3):
        tokens(sampler, [[0.0, 9.0, 8.0, 0.0]])
    sampler.free(0)
    sampler.free(0)
    sampler.admit(NewRequest(slot=0, rid="n", prompt_ids=[1], output_ids=[], sampling=greedy()))
    assert tokens(sampler, [[0.0, 9.0, 8.0, 0.0]]) == [1]


def greedy() -> SamplingParams:
    return SamplingParams(temperature=0.0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"logit_bias": {4: 1.0}}, "logit_bias: token id 4 is not in the vocabulary of 4"),
        ({"logit_bias": {-1: 1.0}}, "logit_bias: token id -1"),
        ({"logprobs": LogprobOptions(output=True, token_ids=(9,))}, "logprobs: token id 9"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"temperature": math.inf}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"min_p": 2.0}, "min_p"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"processor": "nobody"}, "'nobody' is not known here"),
    ],
)
def test_what_would_break_a_step_is_refused_at_admission(
    sampler_of: Make, row: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sampler_of(4, row)


def test_processors_see_their_rows_only(sampler_of: Make) -> None:
    calls: list[list[ProcessorRow]] = []

    def ban_from_params(logits: torch.Tensor, rows: list[ProcessorRow]) -> None:
        calls.append(rows)
        for line, row in zip(logits, rows, strict=True):
            line[row.params["ban"]] = NEG

    def flatten(logits: torch.Tensor, rows: list[ProcessorRow]) -> torch.Tensor:
        return torch.zeros_like(logits)

    sampler = sampler_of(
        4,
        {"temperature": 0.0, "processor": "ban", "custom_params": {"ban": 3}},
        {"temperature": 0.0},
        {"temperature": 0.0, "processor": "flat"},
        {"temperature": 0.0, "processor": "ban", "custom_params": {"ban": 2}, "output": (1,)},
        processors={"ban": ban_from_params, "flat": flatten},
    )
    assert tokens(sampler, [[0.0, 1.0, 2.0, 3.0]] * 4) == [2, 3, 0, 3]
    assert [(row.rid, row.slot, row.generated) for row in calls[0]] == [("r0", 0, 0), ("r3", 3, 1)]


def test_temperature_extremes(sampler_of: Make) -> None:
    sampler = sampler_of(3, {"temperature": 1e-6, "seed": 1}, {"temperature": 1e6, "seed": 1})
    logits = [[100.0, 101.0, -1e30]] * 2
    drawn = [tokens(sampler, logits) for _ in range(200)]
    assert {row[0] for row in drawn} == {1}
    assert {row[1] for row in drawn} == {0, 1}


def test_logprobs_are_those_of_the_model(sampler_of: Make) -> None:
    options = LogprobOptions(output=True, top=2, token_ids=(3, 0))
    sampler = sampler_of(
        4,
        {"temperature": 0.0},
        {"temperature": 5.0, "top_k": 1, "logit_bias": {1: -100.0}, "frequency_penalty": 2.0, "logprobs": options},
    )
    logits = torch.tensor([[0.0, 3.0, 2.0, NEG]] * 2)
    expected = logits[0].log_softmax(-1)
    drawn, logprobs = sampler.sample(logits.clone(), [0, 1], bits(4, {2, 3}), [1])
    assert drawn.tolist() == [1, 2]
    assert set(logprobs) == {1}
    row = logprobs[1]
    assert row.token_logprobs == [pytest.approx(float(expected[2]))]
    assert [token for token, _ in row.top[0]] == [1, 2]
    assert [value for _, value in row.top[0]] == pytest.approx([float(expected[1]), float(expected[2])])
    assert row.wanted[0][0] == (3, LOWEST_LOGPROB)
    assert row.wanted[0][1][0] == 0
    assert row.wanted[0][1][1] == pytest.approx(float(expected[0]))
    json.dumps([row.token_logprobs, row.top, row.wanted], allow_nan=False)


@pytest.mark.field_case("5")
def test_masked_rows_give_strict_json(sampler_of: Make) -> None:
    options = LogprobOptions(output=True, top=5, token_ids=(1,))
    sampler = sampler_of(6, {"seed": 1, "logprobs": options})
    logits = torch.tensor([[NEG, NEG, 1.0, 2.0, NEG, NEG]])
    _, logprobs = sampler.sample(logits, [0], bits(6, {2}), [0])
    text = json.dumps([logprobs[0].token_logprobs, logprobs[0].top, logprobs[0].wanted], allow_nan=False)
    assert str(LOWEST_LOGPROB) in text


def test_entry_point_gives_this_sampler() -> None:
    from sgl_core.registry import Registries

    assert Registries.discover().samplers.load("pytorch") is Sampler
