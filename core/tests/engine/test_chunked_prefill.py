import itertools

import pytest

from sgl_core.api.sampling import SamplingParams
from sgl_core.engine.limits import UNLIMITED, EngineLimits
from sgl_core.engine.null_worker import NullOptions
from sgl_core.testing.engine_driver import Driver, oracle

VOCAB = 1000


def greedy(count):
    return SamplingParams(temperature=0.0, max_new_tokens=count)


def options(size=16, tokens=1024, requests=8):
    return NullOptions(check=True, num_pages=tokens // size, page_size=size, max_requests=requests, vocab_size=VOCAB)


def prefill_tokens(driver):
    """How many prompt tokens each step computed."""
    return [int(step.query_lens[step.query_lens > 1].sum()) for step in driver.steps if (step.query_lens > 1).any()]


@pytest.mark.field_case("136")
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("lazy", [False, True])
def test_prompts_that_fit_neither_page_nor_chunk(mixed, lazy):
    """Field case 136: page size 16, chunks of 24, prompts of 17, 24, 33 and 40 tokens."""
    driver = Driver(options(), EngineLimits(chunked_prefill_size=24, enable_mixed_chunk=mixed), lazy=lazy)
    for round_number in range(2):
        for length in (17, 24, 33, 40):
            driver.add(f"{round_number}-{length}", range(length, 2 * length), greedy(20))
        driver.run()
    for length in (17, 24, 33, 40):
        for round_number in range(2):
            assert driver.records[f"{round_number}-{length}"].tokens == oracle(range(length, 2 * length), 20, VOCAB)


@pytest.mark.field_case("140")
def test_one_short_prompt_in_tiny_chunks_leaves_exact_books():
    """Field case 140: page size 1, chunks of 4, 200 new tokens, then idle."""
    driver = Driver(options(size=1), EngineLimits(chunked_prefill_size=4))
    record = driver.generate(range(10), greedy(200))
    assert record.tokens == oracle(range(10), 200, VOCAB)
    stats = driver.scheduler.stats()
    assert stats.used_pages == 0
    assert stats.cached_pages == 209  # all tokens but the last, whose keys were never computed


@pytest.mark.field_case("142")
def test_later_chunks_use_the_cache_too():
    """Field case 142: two identical 40-token prompts, chunks of 16: the second computes one page at most."""
    driver = Driver(options(size=1), EngineLimits(chunked_prefill_size=16))
    driver.add("first", range(40), greedy(5))
    driver.add("second", range(40), greedy(5))
    driver.run()
    assert driver.records["second"].cached == 39
    assert prefill_tokens(driver) == [16, 16, 8]
    assert driver.records["second"].tokens == driver.records["first"].tokens == oracle(range(40), 5, VOCAB)


@pytest.mark.field_case("143")
@pytest.mark.parametrize("size", [1, 16])
def test_chunks_without_a_cache(size):
    """Field case 143: no prefix cache, chunks of 16, a prompt of 100: same answer, no leak."""
    driver = Driver(options(size=size), EngineLimits(chunked_prefill_size=16, disable_radix_cache=True))
    for _ in range(2):
        record = driver.generate(range(100), greedy(10))
        assert record.tokens == oracle(range(100), 10, VOCAB)
        assert record.cached == 0
    assert sum(prefill_tokens(driver)) + sum(int(s.query_lens[0] == 1 and not s.sample[0]) for s in driver.steps) == 200
    assert driver.scheduler.stats().free_pages == 1024 // size


def test_a_step_computes_no_more_prompt_than_its_chunk():
    driver = Driver(options(), EngineLimits(chunked_prefill_size=32, max_prefill_tokens=20))
    for number in range(4):
        driver.add(f"r{number}", range(number, number + 50), greedy(2))
    driver.run()
    assert max(prefill_tokens(driver)) == 20


def test_without_chunks_a_prompt_is_computed_whole_even_beyond_the_budget():
    driver = Driver(options(), EngineLimits(chunked_prefill_size=UNLIMITED, max_prefill_tokens=64))
    driver.add("long", range(100), greedy(2))
    driver.add("a", range(200, 240), greedy(2))
    driver.add("b", range(300, 340), greedy(2))
    driver.run()
    assert prefill_tokens(driver) == [100, 40, 40]
    assert driver.records["b"].tokens == oracle(range(300, 340), 2, VOCAB)


@pytest.mark.parametrize("mixed", [False, True])
def test_decoding_goes_on_while_a_long_prompt_is_computed(mixed):
    """A running request gets a token at least every second step, however long the prompts behind it."""
    driver = Driver(options(tokens=4096), EngineLimits(chunked_prefill_size=32, enable_mixed_chunk=mixed))
    driver.add("talking", [1, 2, 3], greedy(60))
    driver.turn()
    for number in range(3):
        driver.add(f"long{number}", range(number, 600 + number), greedy(2))
    driver.run()
    slot_of_talking = driver.steps[0].slots[0]
    during = driver.steps[1:60]
    with_talking = [slot_of_talking in step.slots for step in during]
    assert all(a or b for a, b in itertools.pairwise(with_talking))
    assert max(len(step.token_ids) for step in driver.steps) <= 32
    assert driver.records["talking"].tokens == oracle([1, 2, 3], 60, VOCAB)


def test_mixed_steps_put_decodes_first():
    driver = Driver(options(), EngineLimits(chunked_prefill_size=16, enable_mixed_chunk=True))
    driver.add("talking", [1, 2, 3], greedy(20))
    driver.turn()
    driver.add("long", range(100), greedy(2))
    driver.run()
    mixed = [step for step in driver.steps if len(step.slots) == 2 and step.query_lens.max() > 1]
    assert len(mixed) > 3
    assert all(step.query_lens.tolist() == sorted(step.query_lens.tolist()) for step in mixed)


def test_several_decode_steps_between_prefills_when_asked():
    driver = Driver(options(), EngineLimits(chunked_prefill_size=16, prefill_decode_interval=3))
    driver.add("talking", [1, 2, 3], greedy(20))
    driver.turn()
    driver.add("long", range(48), greedy(2))
    driver.run()
    chunks = [number for number, step in enumerate(driver.steps) if step.query_lens.max() == 16]
    assert [b - a for a, b in itertools.pairwise(chunks)] == [4, 4]


def test_no_more_prompts_a_step_than_allowed():
    driver = Driver(options(), EngineLimits(prefill_max_requests=2))
    for number in range(5):
        driver.add(f"r{number}", range(number, number + 10), greedy(1))
    driver.run()
    assert [len(step.slots) for step in driver.steps] == [2, 2, 1]
