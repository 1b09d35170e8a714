"""Prefill chunks beside running answers: what they cost is learnt, and no step takes much longer than the bound."""

import numpy as np

from sgl_core.api.sampling import SamplingParams
from sgl_core.engine.limits import EngineLimits
from sgl_core.engine.null_worker import NullOptions
from sgl_core.engine.pace import PrefillPace
from sgl_core.testing.engine_driver import Driver, LazyWorker, oracle


def test_no_bound_leaves_chunks_whole():
    pace = PrefillPace(0.0)
    pace.note(1000, 50.0)
    assert pace.tokens(8192) == 8192


def test_a_rising_cost_is_believed_at_once_and_a_falling_one_by_and_by():
    pace = PrefillPace(0.2)
    assert pace.tokens(8192) == 256
    assert pace.tokens(100) == 100
    pace.note(1000, 1.0)
    assert pace.tokens(8192) == 200
    pace.note(200, 0.4)
    assert pace.tokens(8192) == 100
    pace.note(100, 0.1)
    assert pace.tokens(8192) == 117
    for _ in range(40):
        pace.note(100, 0.1)
    assert 199 <= pace.tokens(8192) <= 200


def test_neither_tiny_steps_nor_tiny_chunks():
    pace = PrefillPace(0.2)
    pace.note(4, 1.0)
    assert pace.tokens(8192) == 256
    pace.note(32, 100.0)
    assert pace.tokens(8192) == 32


class Clocked(LazyWorker):
    """Each token of a step takes ``cost`` seconds of a clock that nothing else moves."""

    def __init__(self, options, cost):
        super().__init__(options)
        self.now, self.cost = 0.0, cost

    def submit(self, batch):
        step = super().submit(batch)
        result = step.result

        def timed():
            self.now += self.cost * len(batch.token_ids)
            return result()

        step.result = timed
        return step


def driver_of(cost, **limits):
    options = NullOptions(check=True, num_pages=512, page_size=4, max_requests=8, vocab_size=1000)
    worker = Clocked(options, cost)
    return Driver(options, EngineLimits(**limits), worker=worker, clock=lambda: worker.now)


def chunks_of(driver, prompt):
    """The long prompt's chunks, which run beside another request's decoding."""
    driver.add("running", [1, 2, 3], SamplingParams(temperature=0.0, max_new_tokens=60))
    driver.turn()
    driver.turn()
    before = len(driver.steps)
    driver.add("long", prompt, SamplingParams(temperature=0.0, max_new_tokens=5))
    driver.run()
    assert driver.records["long"].tokens == oracle(prompt, 5, 1000)
    assert driver.records["running"].tokens == oracle([1, 2, 3], 60, 1000)
    return [int(step.query_lens.max()) for step in driver.steps[before:] if step.query_lens.max() > 1]


def test_running_answers_wait_no_longer_than_the_bound():
    prompt = np.random.default_rng(0).integers(0, 1000, 900).tolist()
    for mixed in (False, True):
        chunks = chunks_of(driver_of(0.001, prefill_step_ms=100, enable_mixed_chunk=mixed), prompt)
        assert 255 <= chunks[0] <= 256, "nothing was measured yet; in an overlapped step after it neither"
        assert max(chunks[2:]) <= 100
        assert chunks_of(driver_of(0.001, enable_mixed_chunk=mixed), prompt) == [900]


def test_what_prefills_took_is_off_the_bound_until_somebody_decodes():
    pace = PrefillPace(0.2)
    pace.note(100, 0.1)
    assert pace.tokens(8192) == 200
    pace.delayed(0.08)
    assert pace.may_go_on
    assert pace.tokens(8192) == 120
    pace.delayed(0.05)
    assert not pace.may_go_on
    pace.decoded()
    assert pace.tokens(8192) == 200
    unbound = PrefillPace(0.0)
    unbound.delayed(1.0)
    assert not unbound.may_go_on, "without a bound every prefill step is followed by a decode step"


def kinds(driver, since):
    """For each step since then: the prompt tokens of its chunks, or () where requests decoded."""
    return [
        tuple(step.query_lens.tolist()) if len(step.token_ids) > len(step.slots) else ()
        for step in driver.steps[since:]
    ]


def warm(**limits):
    """A driver that knows what a token costs (1 ms; 100 may be computed at once), with one request that decodes."""
    driver = driver_of(0.001, prefill_step_ms=100, disable_overlap_schedule=True, **limits)
    driver.generate(range(100, 150), SamplingParams(temperature=0.0, max_new_tokens=1))
    driver.add("running", [1, 2, 3], SamplingParams(temperature=0.0, max_new_tokens=60))
    driver.turn()
    driver.turn()
    return driver


def come_one_by_one(driver, lengths):
    """Prompts of which each arrives while the one before it is computed; gives the steps from there on."""
    since = len(driver.steps)
    for number, length in enumerate(lengths):
        driver.add(f"r{number}", range(200 + 50 * number, 200 + 50 * number + length), GREEDY)
        driver.turn()
    driver.run()
    for number, length in enumerate(lengths):
        prompt = range(200 + 50 * number, 200 + 50 * number + length)
        assert driver.records[f"r{number}"].tokens == oracle(prompt, 4, 1000)
    return kinds(driver, since)


GREEDY = SamplingParams(temperature=0.0, max_new_tokens=4)


def test_prompts_that_come_one_after_the_other_decode_together():
    steps = come_one_by_one(warm(), [20, 20, 20, 20])
    assert steps[:5] == [(20,), (20,), (20,), (), (20,)], "60 of 100 ms were spent: not enough is left for another step"
    assert come_one_by_one(warm(prefill_decode_interval=1), [20, 20, 20])[:4] == [(20,), (), (20, 20), ()]


def test_a_prefill_that_nobody_waited_for_leaves_the_bound_whole():
    driver = driver_of(0.001, prefill_step_ms=100, disable_overlap_schedule=True)
    assert come_one_by_one(driver, [300, 90, 20])[:4] == [(300,), (90,), (), (20,)]


def test_no_step_is_spent_on_the_few_last_tokens_of_a_prompt():
    assert come_one_by_one(warm(), [131])[:2] == [(131,), ()]
    assert come_one_by_one(warm(), [132])[:3] == [(100,), (), (32,)]
    driver = driver_of(0.001, chunked_prefill_size=100, prefill_step_ms=100)
    assert max(chunks_of(driver, range(131))) == 100, "a chunk's size is no bound of time: it holds"


def test_running_answers_wait_no_longer_than_the_bound_for_many_prompts_together():
    random = np.random.default_rng(1)
    driver = warm()
    waits, waited = [], 0
    for number in range(40):
        driver.add(f"r{number}", random.integers(0, 1000, random.integers(2, 90)).tolist(), GREEDY)
        before = len(driver.steps)
        driver.turn()
        for step in driver.steps[before:]:
            decodes = len(step.token_ids) == len(step.slots)
            waits, waited = ([*waits, waited], 0) if decodes else (waits, waited + len(step.token_ids))
    assert 50 < max(waits) <= 100 + 31
    driver.run()
    assert driver.records["running"].tokens == oracle([1, 2, 3], 60, 1000)
