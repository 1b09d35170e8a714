import numpy as np
import pytest

from sgl_core.api.sampling import LogprobOptions, SamplingParams
from sgl_core.engine.limits import EngineLimits
from sgl_core.engine.null_worker import NullOptions
from sgl_core.testing.engine_driver import Driver, oracle

VOCAB = 1000


def pool(tokens, size, requests=8):
    return NullOptions(check=True, num_pages=tokens // size, page_size=size, max_requests=requests, vocab_size=VOCAB)


def greedy(count):
    return SamplingParams(temperature=0.0, max_new_tokens=count, ignore_eos=True)


@pytest.mark.field_case("137")
@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("radix", [False, True])
def test_retracted_requests_go_on_where_they_were(size, lazy, radix):
    """Field case 137: a small pool, 8 long requests; nothing is lost, no page leaks."""
    limits = EngineLimits(schedule_conservativeness=0.0, disable_radix_cache=not radix, chunked_prefill_size=24)
    driver = Driver(pool(512, size), limits, lazy=lazy)
    for number in range(8):
        sampling = SamplingParams(temperature=1.0, seed=5, max_new_tokens=120) if number % 2 else greedy(120)
        driver.add(f"r{number}", range(number, number + 30), sampling)
    driver.run(20000)
    assert driver.scheduler.stats().retractions > 0
    for number in range(8):
        expected = oracle(range(number, number + 30), 120, VOCAB, seed=5 if number % 2 else None)
        assert driver.records[f"r{number}"].tokens == expected
        assert driver.records[f"r{number}"].end.finish_reason == "length"


@pytest.mark.parametrize("mixed", [False, True])
def test_a_token_of_a_prompt_never_shares_a_row_with_one_of_an_answer(mixed):
    """``prompts_from`` parts them in every step, so that a retracted answer is computed again as it was."""
    limits = EngineLimits(schedule_conservativeness=0.0, chunked_prefill_size=24, enable_mixed_chunk=mixed)
    driver = Driver(pool(512, 4), limits)
    for number in range(8):
        driver.add(f"r{number}", range(number, number + 30), greedy(120))
    driver.run(20000)
    assert driver.scheduler.stats().retractions > 0
    again = 0
    for step in driver.steps:
        answers = np.arange(len(step.slots)) < step.prompts_from
        ends = step.context_lens + step.query_lens
        assert (step.context_lens[answers] >= 30).all()
        assert (ends[~answers] <= 30).all()
        again += int((step.query_lens[answers] > 1).sum())
    assert again, "no answer was computed again"


def test_what_goes_out_in_intervals_survives_a_retraction():
    driver = Driver(pool(256, 4), EngineLimits(schedule_conservativeness=0.0))
    for number in range(4):
        driver.add(
            f"r{number}",
            range(number, number + 20),
            greedy(100),
            stream_interval=7,
            logprobs=LogprobOptions(output=True),
        )
    driver.run(20000)
    assert driver.scheduler.stats().retractions > 0
    for number in range(4):
        record = driver.records[f"r{number}"]
        assert record.tokens == oracle(range(number, number + 20), 100, VOCAB)
        assert sum(len(o.logprobs.token_logprobs) for o in record.outputs if o.logprobs) == 100
        assert [output.prompt_tokens for output in record.outputs if output.prompt_tokens] == [20]


@pytest.mark.field_case("139")
@pytest.mark.parametrize("size", [1, 4])
def test_one_request_larger_than_the_pool_ends_and_the_next_is_served(size):
    """Field case 139: a pool of 256 tokens, one request of 1,000 new tokens that ignores end tokens."""
    driver = Driver(pool(256, size))
    record = driver.generate(range(10), greedy(1000))
    assert record.end.finish_reason == "length"
    assert "KV cache" in record.end.message
    assert record.tokens == oracle(range(10), 247, VOCAB)  # the last token needs no place
    assert driver.generate(range(10), greedy(5)).tokens == oracle(range(10), 5, VOCAB)


def test_a_prompt_as_large_as_the_pool_is_served():
    driver = Driver(pool(64, 4))
    record = driver.generate(range(64), greedy(9))
    assert record.tokens == oracle(range(64), 1, VOCAB)
    end = driver.generate(range(65), greedy(9)).end
    assert (end.status, "holds 64" in end.message) == (400, True)


def test_the_one_with_least_to_lose_is_retracted():
    driver = Driver(pool(128, 1), EngineLimits(schedule_conservativeness=0.0))
    driver.add("old", range(20), greedy(80))
    for _ in range(30):
        driver.turn()
    driver.add("young", range(100, 120), greedy(80))
    while not driver.scheduler.stats().retractions:
        driver.turn()
    assert [request.rid for request in driver.scheduler.state.running()] == ["old"]
    driver.run()
    assert driver.records["young"].tokens == oracle(range(100, 120), 80, VOCAB)


def test_the_less_important_is_retracted_where_priorities_count():
    limits = EngineLimits(schedule_conservativeness=0.0, retraction_policy="priority")
    driver = Driver(pool(128, 1), limits)
    driver.add("humble", range(20), greedy(80), priority=0)
    for _ in range(30):
        driver.turn()
    driver.add("proud", range(100, 120), greedy(80), priority=5)
    while not driver.scheduler.stats().retractions:
        driver.turn()
    assert [request.rid for request in driver.scheduler.state.running()] == ["proud"]
    driver.run()


def test_room_kept_for_running_requests_avoids_retractions():
    def retractions(conservativeness):
        driver = Driver(pool(512, 1), EngineLimits(schedule_conservativeness=conservativeness))
        for number in range(8):
            driver.add(f"r{number}", range(number, number + 30), greedy(100))
        driver.run(20000)
        return driver.scheduler.stats().retractions

    assert retractions(2.0) < retractions(0.0)


def test_an_important_request_displaces_a_much_less_important_one():
    limits = EngineLimits(enable_priority_scheduling=True, max_running_requests=2)
    driver = Driver(pool(512, 4), limits, lazy=True)
    driver.add("a", range(10), greedy(40), priority=0)
    driver.add("b", range(10, 20), greedy(40), priority=8)
    for _ in range(5):
        driver.turn()
    driver.add("close", range(20, 30), greedy(40), priority=9)
    driver.turn()
    assert {request.rid for request in driver.scheduler.state.running()} == {"a", "b"}
    driver.add("urgent", range(30, 40), greedy(5), priority=10)
    driver.turn()
    driver.turn()
    assert {request.rid for request in driver.scheduler.state.running()} == {"urgent", "b"}
    driver.run()
    for rid, start, count in (("a", 0, 40), ("b", 10, 40), ("close", 20, 40), ("urgent", 30, 5)):
        assert driver.records[rid].tokens == oracle(range(start, start + 10), count, VOCAB)


def test_no_preemption_when_it_is_switched_off():
    limits = EngineLimits(enable_priority_scheduling=True, disable_priority_preemption=True, max_running_requests=1)
    driver = Driver(pool(512, 4), limits)
    driver.add("a", range(10), greedy(20), priority=0)
    driver.turn()
    driver.add("urgent", range(30, 40), greedy(5), priority=100)
    driver.run()
    assert driver.scheduler.stats().retractions == 0


def test_a_full_queue_drops_its_least_important():
    limits = EngineLimits(enable_priority_scheduling=True, max_queued_requests=2)
    driver = Driver(pool(512, 4), limits)
    for rid, priority in (("low", 1), ("mid", 5), ("lower", 0), ("high", 9)):
        driver.add(rid, [priority], greedy(2), priority=priority)
    assert driver.records["lower"].end.status == driver.records["low"].end.status == 503
    driver.run()
    assert driver.records["mid"].end.finish_reason == driver.records["high"].end.finish_reason == "length"


def test_priority_without_priority_scheduling():
    assert Driver(pool(64, 4)).generate([1], greedy(1), priority=3).end.finish_reason == "length"
    strict = Driver(pool(64, 4), EngineLimits(abort_on_priority_when_disabled=True))
    assert strict.generate([1], greedy(1), priority=3).end.status == 400
