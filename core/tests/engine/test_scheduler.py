import re
import time

import numpy as np
import pytest

from sgl_core.api.sampling import SamplingParams
from sgl_core.engine.limits import EngineLimits
from sgl_core.engine.null_worker import NullOptions, embedding_of, prefix_hash
from sgl_core.testing.engine_driver import Driver, LazyWorker, oracle

VOCAB = 1000


def greedy(count=None, **fields):
    return SamplingParams(temperature=0.0, max_new_tokens=count, **fields)


def prompts(count, seed=0):
    random = np.random.default_rng(seed)
    return {f"r{n}": random.integers(0, VOCAB, random.integers(3, 30)).tolist() for n in range(count)}


@pytest.mark.field_case("133")
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("overlap", [False, True])
def test_answers_in_a_batch_are_those_given_alone(lazy, mixed, overlap):
    """Field case 133: 16 prompts in parallel answer as one by one."""
    limits = EngineLimits(chunked_prefill_size=16, enable_mixed_chunk=mixed, disable_overlap_schedule=not overlap)
    driver = Driver(limits=limits, lazy=lazy)
    for rid, prompt in prompts(16).items():
        driver.add(rid, prompt, greedy(10))
    driver.run()
    for rid, prompt in prompts(16).items():
        assert driver.records[rid].tokens == oracle(prompt, 10, VOCAB)
        assert driver.records[rid].end.finish_reason == "length"


@pytest.mark.field_case("134")
def test_prompts_of_different_lengths_run_together():
    """Field case 134."""
    driver = Driver()
    short, long = list(range(10)), list(range(100, 126))
    driver.add("short", short, greedy(10))
    driver.add("long", long, greedy(10))
    driver.run()
    assert driver.records["short"].tokens == oracle(short, 10, VOCAB)
    assert driver.records["long"].tokens == oracle(long, 10, VOCAB)


def test_two_steps_overlap_only_when_allowed():
    def most_placeholders(**limits):
        driver = Driver(lazy=True, limits=EngineLimits(**limits))
        driver.generate([1, 2, 3], greedy(8))
        return max(int((step.token_ids == -1).sum()) for step in driver.steps)

    assert most_placeholders() == 1
    assert most_placeholders(disable_overlap_schedule=True) == 0


def test_a_worker_that_does_not_overlap_ends_each_step_before_the_next():
    options = NullOptions(check=True, num_pages=64, page_size=4, max_requests=8, vocab_size=1000)
    worker = LazyWorker(options)
    worker.overlaps = False
    driver = Driver(options, worker=worker)
    driver.generate([1, 2, 3], greedy(8))
    assert not any((step.token_ids == -1).any() for step in driver.steps)


def test_a_step_too_many_under_overlap_changes_nothing():
    prompt = [5, 6, 7]
    answer = oracle(prompt, 20, VOCAB)
    driver = Driver(lazy=True)
    record = driver.generate(prompt, greedy(20), eos_token_ids=(answer[4],))
    assert record.tokens == answer[:5]
    assert (record.end.finish_reason, record.end.matched) == ("stop", answer[4])
    assert driver.scheduler.stats().generated_tokens == 5


def test_stop_token_ids_end_with_the_token_named():
    prompt = [1, 2, 3]
    answer = oracle(prompt, 10, VOCAB)
    end = Driver().generate(prompt, greedy(10, stop_token_ids=(answer[2],))).end
    assert (end.finish_reason, end.matched) == ("stop", answer[2])


@pytest.mark.field_case("56")
def test_ignore_eos_runs_to_the_limit_whatever_ids_end_the_model():
    """Field case 56: exactly as many tokens as asked, finish reason length."""
    prompt = [1, 2, 3]
    answer = oracle(prompt, 40, VOCAB)
    record = Driver().generate(prompt, greedy(40, ignore_eos=True), eos_token_ids=tuple(answer[5:9]))
    assert record.tokens == answer
    assert record.end.finish_reason == "length"


def test_min_new_tokens_holds_back_the_end():
    prompt = [1, 2, 3]
    first = oracle(prompt, 1, VOCAB)[0]
    record = Driver().generate(prompt, greedy(10, min_new_tokens=3), eos_token_ids=(first,))
    assert record.tokens == oracle(prompt, 10, VOCAB, ends=(first,), floor=3)
    assert len(record.tokens) > 3


def test_no_new_tokens_only_computes_the_prompt():
    record = Driver().generate([1, 2, 3], greedy(0))
    assert record.tokens == []
    assert (record.end.finish_reason, record.end.prompt_tokens) == ("length", 3)


def test_the_context_length_bounds_the_answer():
    options = NullOptions(check=True, num_pages=64, page_size=4, max_requests=8, vocab_size=VOCAB, context_length=20)
    driver = Driver(options)
    record = driver.generate(range(12), greedy(None))
    assert len(record.tokens) == 8
    assert record.end.finish_reason == "length"
    assert driver.generate(range(19), greedy(None)).tokens == oracle(range(19), 1, VOCAB)
    end = driver.generate(range(20), greedy(None)).end
    assert (end.finish_reason, end.status) == ("error", 400)
    assert "20 tokens" in end.message
    assert driver.generate(range(20), greedy(0)).end.finish_reason == "length"


@pytest.mark.parametrize(
    ("prompt", "why"),
    [([], "empty"), ([1, VOCAB], "vocabulary"), ([-1], "vocabulary"), (range(300), "context length|holds")],
)
def test_a_prompt_that_cannot_be_served_is_refused_by_itself(prompt, why):
    driver = Driver(
        NullOptions(check=True, num_pages=16, page_size=4, max_requests=2, vocab_size=VOCAB, context_length=400)
    )
    driver.add("good", [1, 2, 3], greedy(5))
    driver.add("bad", prompt, greedy(5))
    driver.run()
    end = driver.records["bad"].end
    assert (end.finish_reason, end.status) == ("error", 400)
    assert re.search(why, end.message)
    assert driver.records["good"].tokens == oracle([1, 2, 3], 5, VOCAB)


def test_the_first_output_reports_prompt_and_cached_tokens():
    driver = Driver()
    prompt = list(range(40))
    assert driver.generate(prompt, greedy(4)).cached == 0
    again = driver.generate(prompt, greedy(4))
    assert again.cached == 36  # nine pages; the last token is always computed
    assert [output.prompt_tokens for output in again.outputs] == [40, 0, 0, 0]
    assert again.tokens == oracle(prompt, 4, VOCAB)


def test_a_conversation_finds_its_own_answer_in_the_cache():
    driver = Driver()
    prompt = list(range(20))
    answer = driver.generate(prompt, greedy(9)).tokens
    turn = [*prompt, *answer, 7, 8]
    record = driver.generate(turn, greedy(3))
    assert record.cached == 28
    assert record.tokens == oracle(turn, 3, VOCAB)


def test_salts_and_adapters_do_not_see_each_others_pages():
    driver = Driver()
    prompt = list(range(40))
    driver.generate(prompt, greedy(2))
    for fields in ({"cache_salt": "a"}, {"lora": "x"}, {"lora": "x", "cache_salt": "a"}):
        assert driver.generate(prompt, greedy(2), **fields).cached == 0
        assert driver.generate(prompt, greedy(2), **fields).cached == 36


def test_outputs_come_in_intervals_but_the_first_token_at_once():
    record = Driver().generate([1, 2], greedy(10), stream_interval=4)
    assert [len(output.token_ids) for output in record.outputs] == [1, 4, 4, 1]
    assert record.tokens == oracle([1, 2], 10, VOCAB)


def test_the_servers_interval_applies_where_the_request_has_none():
    record = Driver(limits=EngineLimits(stream_interval=3)).generate([1, 2], greedy(7))
    assert [len(output.token_ids) for output in record.outputs] == [1, 3, 3]


@pytest.mark.field_case("52", "53")
def test_a_seed_makes_an_answer_its_own_whatever_else_runs():
    """Field cases 52 and 53: a seeded request repeats beside others without a seed; another seed differs."""

    def answer(seed, others):
        driver = Driver(lazy=bool(others))
        for number in range(others):
            driver.add(f"other{number}", [number + 50, 2], SamplingParams(temperature=0.8, max_new_tokens=20))
        sampling = SamplingParams(temperature=0.8, seed=seed, max_new_tokens=16)
        return driver.generate([1, 2, 3], sampling, rid="seeded").tokens

    assert answer(42, 0) == answer(42, 1) == answer(42, 5) == oracle([1, 2, 3], 16, VOCAB, seed=42)
    assert answer(43, 0) != answer(42, 0)


def test_an_embedding_request_ends_with_its_vector():
    driver = Driver(limits=EngineLimits(chunked_prefill_size=8))
    driver.add("text", [9, 9], greedy(6))
    record = driver.generate(range(30), embed=True)
    assert record.end.embedding == embedding_of(prefix_hash(range(30))).tolist()
    assert (record.end.finish_reason, record.tokens, record.end.prompt_tokens) == ("stop", [], 30)
    assert driver.records["text"].tokens == oracle([9, 9], 6, VOCAB)


def test_a_model_without_embeddings_refuses_them():
    driver = Driver()
    submit = driver.worker.submit

    def without(batch):
        step = submit(batch)
        step.result().embeddings.clear()
        return step

    driver.worker.submit = without
    assert driver.generate([1, 2], embed=True).end.status == 400


def test_a_row_that_fails_ends_alone():
    driver = Driver()
    submit = driver.worker.submit

    def failing(batch):
        step = submit(batch)
        if batch.step_id == 3:
            step.result().errors[0] = "bad adapter"
        return step

    driver.worker.submit = failing
    driver.add("a", [1, 2], greedy(8))
    driver.add("b", [3, 4], greedy(8))
    driver.run()
    assert (driver.records["a"].end.finish_reason, driver.records["a"].end.message) == ("error", "bad adapter")
    assert driver.records["b"].tokens == oracle([3, 4], 8, VOCAB)


@pytest.mark.field_case("55")
def test_a_second_request_with_a_running_id_is_refused_and_disturbs_nothing():
    """Field case 55."""
    driver = Driver()
    driver.add("x", [1, 2, 3], greedy(6))
    driver.turn()
    driver.add("x", [4, 5, 6], greedy(6))
    refusal = driver.records["x"].ends[0]
    assert (refusal.finish_reason, refusal.status) == ("error", 400)
    assert "already" in refusal.message
    driver.run()
    assert driver.records["x"].tokens == oracle([1, 2, 3], 6, VOCAB)
    assert [end.finish_reason for end in driver.records["x"].ends] == ["error", "length"]
    driver.add("x", [4, 5, 6], greedy(2))
    driver.run()
    assert driver.records["x"].tokens[6:] == oracle([4, 5, 6], 2, VOCAB)


def test_sessions_are_refused_not_ignored():
    end = Driver().generate([1], session="s").end
    assert (end.status, "session" in end.message) == (400, True)


def test_a_full_queue_answers_503():
    driver = Driver(limits=EngineLimits(max_queued_requests=2))
    for number in range(3):
        driver.add(f"r{number}", [number], greedy(2))
    end = driver.records["r2"].end
    assert (end.finish_reason, end.status) == ("error", 503)
    driver.run()
    assert [driver.records[f"r{n}"].end.finish_reason for n in range(2)] == ["length"] * 2


def test_no_more_run_than_allowed():
    driver = Driver(limits=EngineLimits(max_running_requests=3))
    for rid, prompt in prompts(9).items():
        driver.add(rid, prompt, greedy(4))
    driver.run()
    assert max(len(step.slots) for step in driver.steps) == 3
    assert all(record.tokens for record in driver.records.values())


def test_stats_count_what_happened():
    driver = Driver()
    for _ in range(2):
        driver.generate(range(40), greedy(4))
    stats = driver.scheduler.stats()
    assert (stats.prompt_tokens, stats.cached_prompt_tokens, stats.generated_tokens) == (80, 36, 8)
    assert (stats.running, stats.waiting, stats.used_pages) == (0, 0, 0)
    assert stats.free_pages + stats.cached_pages == stats.total_pages == 64


def test_flushing_needs_an_idle_engine():
    driver = Driver()
    driver.add("r", range(20), greedy(4))
    driver.turn()
    assert not driver.scheduler.flush_cache()
    driver.run()
    assert driver.scheduler.flush_cache()
    assert driver.scheduler.stats().free_pages == 64


@pytest.mark.parametrize("mode", ["in_place", "retract"])
def test_a_pause_stops_steps_and_loses_nothing(mode):
    driver = Driver(lazy=True)
    driver.add("r", range(20), greedy(12))
    for _ in range(4):
        driver.turn()
    driver.scheduler.pause(mode)
    steps = len(driver.steps)
    assert not driver.scheduler.busy
    driver.turn()
    assert len(driver.steps) == steps
    driver.scheduler.paused = False
    driver.run()
    assert driver.records["r"].tokens == oracle(range(20), 12, VOCAB)


def test_a_pause_may_end_everything():
    driver = Driver()
    driver.add("r", range(20), greedy(12))
    driver.turn()
    driver.scheduler.pause("abort")
    driver.turn()
    assert driver.records["r"].end.finish_reason == "abort"
    with pytest.raises(ValueError, match="sometimes"):
        driver.scheduler.pause("sometimes")


class Failing:
    """Makes chosen steps of a worker fail, when they are started or when their result is asked for."""

    def __init__(self, driver, bad, late):
        self.submit, self.bad, self.late = driver.worker.submit, bad, late
        driver.worker.submit = self

    def __call__(self, batch):
        step = self.submit(batch)
        if batch.step_id not in self.bad:
            return step
        if not self.late:
            raise RuntimeError("no")
        return self

    def done(self):
        return True

    def result(self):
        raise RuntimeError("no")


@pytest.mark.parametrize("late", [False, True])
def test_a_failing_step_ends_its_requests_only(late):
    driver = Driver()
    Failing(driver, {2}, late)
    driver.add("a", range(20), greedy(8))
    driver.run()
    end = driver.records["a"].end
    assert (end.finish_reason, end.status) == ("error", 500)
    assert "RuntimeError" not in end.message
    record = driver.generate(range(20), greedy(8))
    assert record.tokens == oracle(range(20), 8, VOCAB)


def test_nothing_computed_by_a_failed_step_stays_in_the_cache():
    driver = Driver()
    Failing(driver, {0}, late=True)
    driver.generate(range(20), greedy(8))
    assert driver.generate(range(20), greedy(8)).cached == 0


def test_three_failures_in_a_row_are_fatal():
    driver = Driver()
    Failing(driver, {0, 1, 2}, late=True)
    for number in range(2):
        driver.generate([number], greedy(3))
    driver.add("last", [5], greedy(3))
    with pytest.raises(RuntimeError, match="no"):
        driver.scheduler.turn()


def test_the_first_output_says_how_long_its_request_waited():
    driver = Driver(limits=EngineLimits(max_running_requests=1))
    for rid, prompt in prompts(3).items():
        driver.add(rid, prompt, greedy(4), arrival=time.monotonic())
    driver.run()
    waited = [driver.records[f"r{n}"].outputs[0].queue_seconds for n in range(3)]
    assert 0 <= waited[0] < waited[1] < waited[2]
    assert all(later.queue_seconds == 0 for n in range(3) for later in driver.records[f"r{n}"].outputs[1:])
