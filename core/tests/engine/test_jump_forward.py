"""Jump-forward: tokens that a constraint forces are appended without being sampled, and nothing but the number of steps changes."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_core.api.sampling import GrammarRequest, LogprobOptions, SamplingParams
from sgl_core.engine.grammars import GrammarTools
from sgl_core.engine.limits import EngineLimits
from sgl_core.engine.null_worker import NullOptions
from sgl_core.testing.engine_driver import Driver

VOCAB = 60
EOS = 0


class Path:
    """At each place one of the given tokens; a run of single ones is forced, except eos."""

    def __init__(self, places):
        self.places, self.at, self.fault = places, 0, False

    def accept(self, token_id):
        if self.finished() or token_id not in self.places[self.at]:
            return False
        self.at += 1
        return True

    def fill_mask(self, mask, row):
        mask[row] = 0
        for token in self.places[self.at]:
            mask.view(np.uint32)[row, token // 32] |= np.uint32(1 << (token % 32))

    def finished(self):
        return self.at == len(self.places)

    def forced(self):
        run = []
        for place in self.places[self.at :]:
            if len(place) > 1 or place[0] == EOS:
                break
            run.append(place[0])
        return run[:3]  # as backends do, which do not always see the whole run at once


class Backend:
    """Compiles "1 2|3 4": places divided by spaces, tokens by bars."""

    def compile(self, request):
        places = [[int(token) for token in place.split("|")] for place in request.text.split()]
        return type("Compiled", (), {"matcher": lambda self: Path(places)})()


def make(jump=True, options=None, **limits):
    return Driver(
        options or NullOptions(check=True, num_pages=64, page_size=4, max_requests=8, vocab_size=VOCAB),
        EngineLimits(disable_jump_forward=not jump, **limits),
        make_grammar_tools=lambda: GrammarTools(Backend()),
    )


def add(driver, rid, text, prompt=(1, 2, 3), *, count=100, seed=None, logprobs=False, stops=(), **fields):
    driver.add(
        rid,
        prompt,
        SamplingParams(temperature=0.0 if seed is None else 1.0, seed=seed, max_new_tokens=count, stop_token_ids=stops),
        grammar=GrammarRequest(kind="regex", text=text),
        eos_token_ids=(EOS,),
        logprobs=LogprobOptions(output=logprobs),
        **fields,
    )


def settle(driver):
    pause = threading.Event()
    for _ in range(5000):
        if not (driver.scheduler.busy or driver.scheduler.compiling):
            return
        if not driver.turn() and driver.scheduler.compiling:
            pause.wait(0.001)
    raise AssertionError("not at rest")


def test_a_forced_run_takes_one_step():
    driver = make()
    add(driver, "r", "5|6 7 8 9 10 11 12|13 14 15")
    settle(driver)
    tokens = driver.records["r"].tokens
    assert tokens[1:6] == [7, 8, 9, 10, 11]
    assert tokens[7:] == [14, 15]
    assert driver.records["r"].end.finish_reason == "stop"
    assert [step.query_lens.tolist() for step in driver.steps] == [[3], [6]]
    stats = driver.scheduler.stats()
    assert (stats.generated_tokens, stats.jumped_tokens) == (9, 7)


def test_each_flag_or_wish_that_needs_every_step_gets_it():
    for driver, wish in ((make(jump=False), {}), (make(), {"logprobs": True}), (make(), {"logit_processor": "x"})):
        add(driver, "r", "5|6 7 8 9", **wish)
        settle(driver)
        assert driver.records["r"].tokens[1:] == [7, 8, 9]
        assert driver.scheduler.stats().jumped_tokens == 0


def test_the_limit_cuts_a_forced_run():
    driver = make()
    add(driver, "r", "5 6 7 8 9", count=3)
    settle(driver)
    assert (driver.records["r"].tokens, driver.records["r"].end.finish_reason) == ([5, 6, 7], "length")


@pytest.mark.parametrize("jump", [True, False])
def test_a_stop_token_inside_a_forced_run_stops(jump):
    driver = make(jump)
    add(driver, "r", "5 6 7 8 9", stops=(8,))
    settle(driver)
    end = driver.records["r"].end
    assert (driver.records["r"].tokens, end.finish_reason, end.matched) == ([5, 6, 7, 8], "stop", 8)


def test_an_abort_between_a_jump_and_its_step_leaks_nothing():
    driver = make()
    add(driver, "r", "5 6 7 8 9 10|11 12", prompt=range(1, 20))
    while not driver.scheduler.state.jumping:
        driver.turn()
    driver.abort("r")
    settle(driver)
    assert driver.records["r"].end.finish_reason == "abort"
    again = driver.generate(range(1, 20), SamplingParams(temperature=0.0, max_new_tokens=4))
    assert again.tokens == make().generate(range(1, 20), SamplingParams(temperature=0.0, max_new_tokens=4)).tokens


def test_an_answer_that_jumped_is_found_in_the_prefix_cache():
    driver = make()
    add(driver, "r", "5|6 7 8 9 10 11 12|13 14 15 16 17")
    settle(driver)
    whole = [1, 2, 3, *driver.records["r"].tokens, 40]
    later = driver.generate(whole, SamplingParams(temperature=0.0, max_new_tokens=2))
    assert later.cached >= 8
    fresh = make().generate(whole, SamplingParams(temperature=0.0, max_new_tokens=2))
    assert later.tokens == fresh.tokens


place = st.lists(st.integers(1, VOCAB - 1), min_size=1, max_size=3, unique=True)
forced = st.integers(1, VOCAB - 1).map(lambda token: [token])
asked = st.fixed_dictionaries(
    {
        "places": st.lists(forced | place, min_size=1, max_size=24),
        "prompt": st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=30),
        "count": st.integers(1, 30),
        "seed": st.none() | st.integers(0, 3),
        "stops": st.sampled_from([(), (7,), (7, 11, 13, 17)]),
        "stream_interval": st.sampled_from([1, 1, 3]),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    requests=st.lists(asked, min_size=1, max_size=6),
    pages=st.integers(18, 40),
    chunk=st.sampled_from([2, 7, 8192]),
    mixed=st.booleans(),
    lazy=st.booleans(),
    page_size=st.sampled_from([1, 4]),
)
def test_answers_are_the_same_with_and_without(requests, pages, chunk, mixed, lazy, page_size):
    """Small pools retract, small chunks cut the jumps; seeds count every token; pages and locks are checked after every turn."""
    answers = []
    for jump in (True, False):
        options = NullOptions(
            check=True, num_pages=pages * 4 // page_size, page_size=page_size, max_requests=4, vocab_size=VOCAB
        )
        driver = Driver(
            options,
            EngineLimits(disable_jump_forward=not jump, chunked_prefill_size=chunk, enable_mixed_chunk=mixed),
            make_grammar_tools=lambda: GrammarTools(Backend()),
            lazy=lazy,
        )
        for number, wanted in enumerate(requests):
            fields = {**wanted, "text": " ".join("|".join(map(str, p)) for p in wanted["places"])}
            del fields["places"]
            add(driver, f"r{number}", **fields)
        settle(driver)
        answers.append(
            {rid: (r.tokens, r.end.finish_reason, r.end.matched, r.end.message) for rid, r in driver.records.items()}
        )
    assert answers[0] == answers[1]
