import pytest

from sgl_core.api.sampling import LogprobOptions, SamplingParams
from sgl_core.engine.limits import EngineLimits
from sgl_core.engine.null_worker import NullOptions
from sgl_core.testing.engine_driver import Driver, oracle

VOCAB = 1000
GREEDY = SamplingParams(temperature=0.0, max_new_tokens=4)


def make(lazy=True, **limits):
    options = NullOptions(check=True, num_pages=512, page_size=4, max_requests=16, vocab_size=VOCAB)
    return Driver(options, EngineLimits(**limits), lazy=lazy)


def computed(driver):
    """Prompt tokens computed over all steps."""
    return sum(int(step.query_lens.sum()) for step in driver.steps) - sum(
        int((step.query_lens == 1).sum()) for step in driver.steps
    )


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("chunk", [32, 8192])
def test_requests_wait_for_a_prefix_that_is_being_computed(lazy, chunk):
    driver = make(lazy, chunked_prefill_size=chunk)
    shared = list(range(200))
    for number in range(8):
        driver.add(f"r{number}", [*shared, number, 500, 501], GREEDY)
    driver.run()
    assert computed(driver) == 203 + 7 * 3
    for number in range(8):
        assert driver.records[f"r{number}"].tokens == oracle([*shared, number, 500, 501], 4, VOCAB)
        assert driver.records[f"r{number}"].cached == (200 if number else 0)


def test_others_pass_those_who_wait():
    driver = make()
    driver.add("first", range(100), GREEDY)
    driver.add("waits", range(100), GREEDY)
    driver.add("other", range(300, 400), GREEDY)
    driver.turn()
    assert [len(step.slots) for step in driver.steps] == [2]
    driver.run()
    assert driver.records["waits"].cached == 96


def test_a_wait_has_an_end():
    driver = make(share_wait_steps=0)
    driver.add("first", range(200), GREEDY)
    driver.add("second", range(200), GREEDY)
    driver.turn()
    assert len(driver.steps[0].slots) == 2
    driver.run()
    assert driver.records["second"].tokens == driver.records["first"].tokens
    assert driver.scheduler.stats().cached_pages == 50  # the second copy of each page was given back


def test_who_waits_goes_on_alone_when_the_other_is_aborted():
    driver = make(chunked_prefill_size=32)
    driver.add("first", range(200), GREEDY)
    driver.add("second", range(200), GREEDY)
    driver.turn()
    driver.turn()
    driver.abort("first")
    driver.run()
    assert driver.records["second"].tokens == oracle(range(200), 4, VOCAB)


def test_short_agreement_is_not_waited_for():
    driver = make()
    driver.add("a", [7, *range(100, 150)], GREEDY)
    driver.add("b", [7, *range(200, 250)], GREEDY)
    driver.turn()
    assert len(driver.steps[0].slots) == 2


def test_different_salts_do_not_wait_for_each_other():
    driver = make()
    driver.add("a", range(100), GREEDY, cache_salt="a")
    driver.add("b", range(100), GREEDY, cache_salt="b")
    driver.turn()
    assert len(driver.steps[0].slots) == 2


def test_who_needs_the_logprobs_of_the_whole_prompt_computes_it():
    driver = make()
    driver.add("a", range(100), GREEDY)
    driver.add("b", range(100), GREEDY, logprobs=LogprobOptions(prompt_start=0))
    driver.turn()
    assert len(driver.steps[0].slots) == 2
    driver.run()
    assert len(driver.records["b"].outputs[0].prompt_logprobs.token_logprobs) == 100


@pytest.mark.field_case("25")
def test_choices_of_one_prompt_count_no_cache_hit_of_their_own():
    """Field case 25: n=4 of a fresh prompt reports nothing cached; the same prompt later reports it."""
    driver = make()
    for number in range(4):
        driver.add(f"c{number}", range(200), SamplingParams(temperature=1.0, seed=number, max_new_tokens=4), group="g")
    driver.run()
    assert [driver.records[f"c{n}"].cached for n in range(4)] == [0, 0, 0, 0]
    assert computed(driver) == 200 + 3 * 4
    assert len({tuple(driver.records[f"c{n}"].tokens) for n in range(4)}) == 4
    assert driver.generate(range(200), GREEDY).cached == 196
    assert driver.scheduler.state.groups == {}
