import pytest

from sgl_core.api.sampling import SamplingParams
from sgl_core.engine.limits import EngineLimits
from sgl_core.engine.messages import Abort
from sgl_core.testing.engine_driver import Driver, oracle

GREEDY = SamplingParams(temperature=0.0, max_new_tokens=20)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("turns", range(9))
def test_an_abort_in_any_state_ends_once_and_frees_everything(lazy, turns):
    """Waiting, in the first chunk, in a later one, decoding; with a step under way or not."""
    driver = Driver(limits=EngineLimits(chunked_prefill_size=8, max_running_requests=2), lazy=lazy)
    driver.add("stays", range(40, 60), GREEDY)
    driver.add("goes", range(30), GREEDY)
    driver.add("waits", range(60, 80), GREEDY)
    for _ in range(turns):
        driver.turn()
    driver.abort("goes")
    driver.check()
    driver.run()
    gone = driver.records["goes"]
    assert gone.end.finish_reason == "abort"
    assert gone.outputs[-1] is gone.end
    assert gone.tokens == oracle(range(30), 20, 1000)[: len(gone.tokens)]
    assert driver.records["stays"].tokens == oracle(range(40, 60), 20, 1000)
    assert driver.records["waits"].tokens == oracle(range(60, 80), 20, 1000)


def test_a_stop_string_found_by_the_front_ends_with_stop():
    driver = Driver()
    driver.add("r", [1, 2], GREEDY)
    driver.turn()
    driver.turn()
    driver.abort("r", reason="stop")
    driver.run()
    assert driver.records["r"].end.finish_reason == "stop"


def test_tokens_not_sent_yet_come_with_the_end():
    driver = Driver()
    driver.add("r", [1, 2], GREEDY, stream_interval=10)
    for _ in range(5):
        driver.turn()
    driver.abort("r")
    assert driver.records["r"].tokens == oracle([1, 2], 5, 1000)


def test_aborting_all():
    driver = Driver(lazy=True)
    for number in range(12):
        driver.add(f"r{number}", [number, 1, 2], GREEDY)
    driver.turn()
    driver.scheduler.abort(Abort(all=True))
    driver.run()
    assert [record.end.finish_reason for record in driver.records.values()] == ["abort"] * 12


def test_an_abort_of_nobody_is_no_error():
    driver = Driver()
    driver.abort("nobody")
    assert driver.records == {}


def test_what_was_computed_before_an_abort_is_kept_for_others():
    driver = Driver(limits=EngineLimits(chunked_prefill_size=8), lazy=True)
    driver.add("r", range(40), GREEDY)
    for _ in range(3):
        driver.turn()
    driver.abort("r")
    driver.run()
    record = driver.generate(range(40), GREEDY)
    assert record.cached == 16  # two chunks were taken in, the third was still under way
    assert record.tokens == oracle(range(40), 20, 1000)
