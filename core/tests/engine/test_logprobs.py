import pytest

from sgl_core.api.sampling import LogprobOptions, SamplingParams
from sgl_core.engine.limits import EngineLimits
from sgl_core.engine.null_worker import NullOptions
from sgl_core.testing.engine_driver import Driver, oracle

PROMPT = list(range(30))
OPTIONS = NullOptions(check=True, num_pages=64, page_size=4, max_requests=8, vocab_size=1000)


def serve(driver, logprobs, count=5, **fields):
    return driver.generate(PROMPT, SamplingParams(temperature=0.0, max_new_tokens=count), logprobs=logprobs, **fields)


def output_logprobs(record, what="token_logprobs"):
    return [value for output in record.outputs if output.logprobs for value in getattr(output.logprobs, what)]


def test_each_token_has_its_logprob_in_the_same_message():
    record = serve(Driver(), LogprobOptions(output=True, top=2, token_ids=(7,)))
    for output in record.outputs:
        assert len(output.token_ids) == len(output.logprobs.token_logprobs) == 1
        assert [token for token, _ in output.logprobs.top[0]] == [0, 1]
        assert [token for token, _ in output.logprobs.wanted[0]] == [7]
    assert record.outputs[-1].finish_reason == "length"


def test_intervals_gather_logprobs_with_their_tokens():
    one = output_logprobs(serve(Driver(), LogprobOptions(output=True)))
    record = serve(Driver(), LogprobOptions(output=True), stream_interval=3)
    assert [len(o.logprobs.token_logprobs) for o in record.outputs] == [1, 3, 1]
    assert output_logprobs(record) == one


@pytest.mark.parametrize("chunk", [1, 7, 8192])
@pytest.mark.parametrize("lazy", [False, True])
def test_prompt_logprobs_come_whole_with_the_first_output(chunk, lazy):
    driver = Driver(OPTIONS, EngineLimits(chunked_prefill_size=chunk), lazy=lazy)
    whole = serve(Driver(), LogprobOptions(prompt_start=0, top=1)).outputs[0].prompt_logprobs
    record = serve(driver, LogprobOptions(prompt_start=0, top=1))
    assert record.outputs[0].prompt_logprobs == whole
    assert whole.token_logprobs[0] is None
    assert whole.top[0] == []
    assert len(whole.token_logprobs) == len(whole.top) == 30
    assert all(output.prompt_logprobs is None for output in record.outputs[1:])


@pytest.mark.parametrize("start", [1, 2, 13, 28, 29])
def test_positions_whose_logprobs_are_wanted_are_computed_again(start):
    driver = Driver()
    whole = serve(driver, LogprobOptions(prompt_start=0)).outputs[0].prompt_logprobs.token_logprobs
    record = serve(driver, LogprobOptions(prompt_start=start))
    assert record.outputs[0].prompt_logprobs.token_logprobs == whole[start:]
    assert record.cached == (start - 1) // 4 * 4
    assert record.tokens == oracle(PROMPT, 5, 1000)


def test_prompt_logprobs_without_new_tokens():
    record = serve(Driver(), LogprobOptions(prompt_start=0), count=0)
    assert len(record.end.prompt_logprobs.token_logprobs) == 30
    assert record.tokens == []


def test_a_start_behind_the_prompt_gives_none():
    assert serve(Driver(), LogprobOptions(prompt_start=30)).outputs[0].prompt_logprobs is None


def test_a_prompt_of_one_token_has_nothing_before_it():
    record = Driver().generate([5], SamplingParams(max_new_tokens=2), logprobs=LogprobOptions(prompt_start=0, top=2))
    assert record.outputs[0].prompt_logprobs.token_logprobs == [None]
    assert record.outputs[0].prompt_logprobs.top == [[]]


def test_prompt_logprobs_survive_a_retraction_in_mid_prompt():
    driver = Driver(OPTIONS, EngineLimits(chunked_prefill_size=7))
    whole = serve(Driver(), LogprobOptions(prompt_start=0)).outputs[0].prompt_logprobs
    driver.add("r", PROMPT, SamplingParams(temperature=0.0, max_new_tokens=2), logprobs=LogprobOptions(prompt_start=0))
    driver.turn()
    driver.turn()
    driver.scheduler.pause("retract")
    driver.scheduler.paused = False
    driver.run()
    assert driver.records["r"].outputs[0].prompt_logprobs == whole
