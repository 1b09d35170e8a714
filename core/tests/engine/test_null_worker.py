import numpy as np
import pytest

from sgl_core.api.sampling import SamplingParams
from sgl_core.api.worker import NewRequest, StepBatch
from sgl_core.engine.null_worker import NullOptions, NullWorker, prefix_hash, token_of
from sgl_core.testing.engine_driver import oracle


def ints(*values):
    return np.array(values, dtype=np.int32)


def worker(**options):
    made = NullWorker(NullOptions(num_pages=8, page_size=2, max_requests=4, vocab_size=1000, **options))
    made.load(lambda what, done, total: None)
    return made


def new(slot, prompt):
    return NewRequest(
        slot=slot, rid=f"r{slot}", prompt_ids=list(prompt), output_ids=[], sampling=SamplingParams(temperature=0.0)
    )


def step(made, tokens, context, pages, write=None, slot=0, **fields):
    positions = np.arange(context, context + len(tokens))
    table = ints(*pages)
    right = table[positions // 2] * 2 + positions % 2
    batch = StepBatch(
        step_id=0,
        slots=ints(slot),
        token_ids=ints(*tokens),
        query_lens=ints(len(tokens)),
        context_lens=ints(context),
        page_table=table[None, :],
        write_slots=right.astype(np.int32) if write is None else ints(*write),
        sample=np.array([True]),
        **fields,
    )
    return int(made.submit(batch).result().tokens[0])


@pytest.mark.parametrize("check", [False, True])
def test_the_answer_is_a_function_of_the_tokens_alone(check):
    made = worker(check=check)
    first = step(made, [5, 6, 7], 0, [3, 1], new_requests=[new(0, [5, 6, 7])])
    assert first == token_of(prefix_hash([5, 6, 7]), 1000)[0] == oracle([5, 6, 7], 1, 1000)[0]
    second = step(made, [-1], 3, [3, 1])
    assert [first, second] == oracle([5, 6, 7], 2, 1000)


@pytest.mark.parametrize("check", [False, True])
def test_a_wrong_page_changes_the_answer(check):
    made = worker(check=check)
    first = step(made, [5, 6, 7, 8], 0, [3, 1], new_requests=[new(0, [5, 6, 7, 8])])
    step(made, [1, 2, 3, 4], 0, [4, 5], slot=1, new_requests=[new(1, [1, 2, 3, 4])])
    assert step(made, [first], 4, [3, 5, 6]) != oracle([5, 6, 7, 8], 2, 1000)[1]


def test_a_page_swapped_further_back_is_seen_by_the_thorough_check():
    made = worker(check=True)
    first = step(made, [5, 6, 7, 8], 0, [3, 1], new_requests=[new(0, [5, 6, 7, 8])])
    step(made, [1, 2, 3, 4], 0, [4, 5], slot=1, new_requests=[new(1, [1, 2, 3, 4])])
    assert step(made, [first], 4, [4, 1, 6]) != oracle([5, 6, 7, 8], 2, 1000)[1]


def test_writes_that_contradict_the_page_table_are_refused():
    made = worker()
    with pytest.raises(RuntimeError, match="page table"):
        step(made, [5], 0, [3], write=[0], new_requests=[new(0, [5])])


def test_reading_what_was_never_written_is_refused():
    made = worker(check=True)
    with pytest.raises(RuntimeError, match="never written"):
        step(made, [5], 2, [3, 4], new_requests=[new(0, [1, 2, 5])])


def test_a_slot_that_is_taken_cannot_be_given_again():
    made = worker()
    step(made, [5], 0, [3], new_requests=[new(0, [5])])
    with pytest.raises(RuntimeError, match="r0"):
        step(made, [5], 0, [4], new_requests=[new(0, [5])])
    step(made, [5], 0, [4], new_requests=[new(0, [5])], freed_slots=[0])


def test_an_operation_it_lacks_is_a_key_error():
    with pytest.raises(KeyError):
        worker().control("update_weights", {})
