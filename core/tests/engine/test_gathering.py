"""Prompts of clients that come back together make one step; nobody waits long for those that do not come."""

from sgl_core.api.sampling import SamplingParams
from sgl_core.engine.gathering import Gathering
from sgl_core.engine.limits import EngineLimits
from sgl_core.engine.null_worker import NullOptions
from sgl_core.testing.engine_driver import Driver, oracle


def test_the_first_of_several_waits_for_the_others():
    gathering = Gathering(0.2)
    for _ in range(3):
        gathering.ended(1.0)
    gathering.came(1.01)
    assert 0.019 < gathering.left(1.01) < 0.021
    gathering.came(1.025)
    assert 0.0 < gathering.left(1.03) < 0.016
    gathering.came(1.04)
    assert gathering.left(1.04) == 0.0, "all are here"


def test_who_does_not_come_in_time_is_not_waited_for():
    gathering = Gathering(0.2)
    gathering.ended(1.0)
    gathering.ended(1.001)
    gathering.came(1.01)
    assert gathering.left(1.031) == 0.0
    gathering.came(1.1)
    assert gathering.left(1.1) == 0.0, "it has nothing to do with those ends"
    gathering.ended(2.0)
    gathering.came(2.01)
    assert gathering.left(2.01) == 0.0, "one went, one came"


def test_however_many_come_the_first_waits_no_longer_than_half_the_bound():
    gathering = Gathering(0.2)
    for _ in range(100):
        gathering.ended(1.0)
    for number in range(9):
        gathering.came(1.01 + number / 100)
    assert 0.0 < gathering.left(1.09) < 0.011
    assert gathering.left(1.1) == 0.0


def test_without_a_bound_nobody_waits():
    gathering = Gathering(0.0)
    gathering.ended(1.0)
    gathering.ended(1.0)
    gathering.came(1.0)
    assert gathering.left(1.0) == 0.0


GREEDY = SamplingParams(temperature=0.0, max_new_tokens=3)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def driver_and_clock():
    clock = Clock()
    options = NullOptions(check=True, num_pages=512, page_size=4, max_requests=8, vocab_size=1000)
    driver = Driver(options, EngineLimits(prefill_step_ms=200), clock=clock)
    for number in range(3):
        driver.add(f"before{number}", range(number, number + 10), GREEDY)
    driver.run()
    return driver, clock


def test_prompts_that_follow_answers_that_ended_together_make_one_step():
    driver, clock = driver_and_clock()
    steps = len(driver.steps)
    for number in range(3):
        clock.now += 0.01
        driver.add(f"after{number}", range(20 + number, 40 + number), GREEDY)
        assert driver.scheduler.busy
        assert bool(driver.scheduler.hold) == (number < 2)
        if number < 2:
            assert not driver.turn()
    driver.run()
    assert driver.steps[steps].query_lens.tolist() == [20, 20, 20]
    for number in range(3):
        assert driver.records[f"after{number}"].tokens == oracle(range(20 + number, 40 + number), 3, 1000)


def test_a_prompt_alone_starts_when_the_time_is_over_and_nobody_waits_beside_a_running_answer():
    driver, clock = driver_and_clock()
    driver.add("alone", range(20, 40), GREEDY)
    assert not driver.turn()
    clock.now += 0.021
    assert driver.turn()
    driver.add("late", range(50, 70), GREEDY)
    assert driver.scheduler.hold == 0.0
    driver.run()
    assert driver.records["late"].tokens == oracle(range(50, 70), 3, 1000)


def test_an_aborted_answer_is_not_expected_back():
    clock = Clock()
    driver = Driver(None, EngineLimits(prefill_step_ms=200), clock=clock)
    for number in range(3):
        driver.add(f"r{number}", range(number, number + 10), GREEDY)
    driver.turn()
    for number in range(3):
        driver.abort(f"r{number}")
    driver.add("next", range(20, 30), GREEDY)
    assert driver.scheduler.hold == 0.0
    driver.run()
