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
