import threading

import numpy as np
import pytest

from sgl_core.api.grammar import GrammarError
from sgl_core.api.sampling import GrammarRequest, SamplingParams
from sgl_core.engine.grammar_state import Constraint, ReasoningEnd
from sgl_core.engine.grammars import GrammarTools
from sgl_core.engine.limits import EngineLimits
from sgl_core.engine.null_worker import NullOptions
from sgl_core.testing.engine_driver import Driver, oracle

VOCAB = 100
OPTIONS = NullOptions(check=True, num_pages=64, page_size=4, max_requests=8, vocab_size=VOCAB)


class Sequence:
    """A constraint that allows exactly the given tokens, one after another."""

    def __init__(self, tokens, fault=""):
        self.tokens, self.at, self.fault = tokens, 0, fault

    def accept(self, token_id):
        if self.fault == "accept":
            raise RuntimeError("accept is broken")
        if self.fault == "deny" or self.finished() or token_id != self.tokens[self.at]:
            return False
        self.at += 1
        return True

    def fill_mask(self, mask, row):
        if self.fault == "fill":
            raise RuntimeError("fill_mask is broken")
        if self.fault == "complex":
            raise GrammarError("more than 1,000 states")
        token = self.tokens[self.at]
        mask[row] = 0
        mask.view(np.uint32)[row, token // 32] = np.uint32(1) << np.uint32(token % 32)

    def finished(self):
        return self.at == len(self.tokens)

    def forced(self):
        return []


class Compiled:
    def __init__(self, text):
        self.text = text

    def matcher(self):
        fault, _, tokens = self.text.rpartition(":")
        return Sequence([int(token) for token in tokens.split()], fault)


class Backend:
    """Compiles "fault:1 2 3"; ``gate`` holds compilation of texts that begin with "slow" back."""

    def __init__(self):
        self.compiled, self.gate = [], threading.Event()

    def compile(self, request):
        self.compiled.append(request.text)
        if request.text.startswith("slow"):
            assert self.gate.wait(10)
        if request.text == "bad":
            raise GrammarError("no such type", pointer="/properties/a")
        if request.text == "crash":
            raise ZeroDivisionError("internal")
        return Compiled(request.text)


@pytest.fixture
def backend():
    made = Backend()
    yield made
    made.gate.set()


def make(backend, clock=None, reasoning_end=None, lazy=False, **limits):
    return Driver(
        OPTIONS,
        EngineLimits(**limits),
        lazy=lazy,
        make_grammar_tools=lambda: GrammarTools(backend, reasoning_end),
        **({"clock": clock} if clock else {}),
    )


def settle(driver, turns=3000):
    """Run until no constraint compiles any more and all is served."""
    pause = threading.Event()
    for _ in range(turns):
        if not (driver.scheduler.busy or driver.scheduler.compiling):
            return
        if not driver.turn() and driver.scheduler.compiling:
            pause.wait(0.001)
    raise AssertionError("not at rest")


def constrained(driver, rid, text, *, count=10, prompt=(1, 2, 3), **fields):
    driver.add(
        rid,
        prompt,
        SamplingParams(temperature=0.0, max_new_tokens=count),
        grammar=GrammarRequest(kind="regex", text=text, **fields),
        eos_token_ids=(0,),
    )


@pytest.mark.parametrize("lazy", [False, True])
def test_only_allowed_tokens_come_and_completion_ends_the_request(backend, lazy):
    driver = make(backend, lazy=lazy)
    driver.add("free", [7, 8], SamplingParams(temperature=0.0, max_new_tokens=12))
    constrained(driver, "r", "5 6 77 8")
    settle(driver)
    assert driver.records["r"].tokens == [5, 6, 77, 8]
    assert (driver.records["r"].end.finish_reason, driver.records["r"].end.matched) == ("stop", None)
    assert driver.records["free"].tokens == oracle([7, 8], 12, VOCAB)


def test_an_end_of_sequence_token_ends_without_asking_the_matcher(backend):
    driver = make(backend)
    constrained(driver, "r", "5 0 9")
    settle(driver)
    assert driver.records["r"].tokens == [5, 0]
    assert driver.records["r"].end.matched == 0


def test_the_limit_may_cut_a_constrained_answer(backend):
    driver = make(backend)
    constrained(driver, "r", "5 6 7 8", count=2)
    settle(driver)
    assert (driver.records["r"].tokens, driver.records["r"].end.finish_reason) == ([5, 6], "length")


def test_the_same_content_is_compiled_once(backend):
    driver = make(backend)
    for number in range(5):
        constrained(driver, f"r{number}", "5 6")
    settle(driver)
    constrained(driver, "late", "5 6")
    settle(driver)
    assert backend.compiled == ["5 6"]
    assert all(record.tokens == [5, 6] for record in driver.records.values())


def test_the_cache_of_compiled_constraints_is_bounded(backend):
    driver = make(backend, grammar_cache_size=2)
    for text in ("1", "2", "3", "1"):
        constrained(driver, f"r{len(driver.records)}", text)
        settle(driver)
    assert backend.compiled == ["1", "2", "3", "1"]
    assert len(driver.scheduler._grammars._compiled) == 2


def test_a_bad_constraint_is_the_clients_error(backend):
    driver = make(backend)
    constrained(driver, "bad", "bad")
    constrained(driver, "crash", "crash")
    constrained(driver, "good", "5")
    settle(driver)
    assert (driver.records["bad"].end.status, driver.records["bad"].end.message) == (
        400,
        "no such type (at /properties/a)",
    )
    assert driver.records["crash"].end.status == 400
    assert "ZeroDivision" not in driver.records["crash"].end.message
    assert driver.records["good"].tokens == [5]


def test_a_slow_compile_holds_nobody_else_up(backend):
    driver = make(backend)
    constrained(driver, "slow", "slow:5")
    driver.add("free", [7, 8], SamplingParams(temperature=0.0, max_new_tokens=12))
    driver.run()
    assert driver.records["free"].tokens == oracle([7, 8], 12, VOCAB)
    assert driver.scheduler.waiting_count == 1
    backend.gate.set()
    settle(driver)
    assert driver.records["slow"].tokens == [5]


def test_a_compile_that_takes_too_long_is_given_up(backend):
    now = [0.0]
    driver = make(backend, clock=lambda: now[0], grammar_timeout=30.0)
    constrained(driver, "slow", "slow:5")
    driver.turn()
    assert not driver.records["slow"].outputs
    now[0] = 31.0
    driver.turn()
    assert driver.records["slow"].end.status == 400
    assert "30 s" in driver.records["slow"].end.message


def test_an_abort_while_the_constraint_compiles(backend):
    driver = make(backend)
    constrained(driver, "slow", "slow:5")
    driver.abort("slow")
    assert driver.records["slow"].end.finish_reason == "abort"
    assert not driver.scheduler.compiling


@pytest.mark.parametrize("fault", ["fill", "accept", "deny"])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_failing_matcher_ends_its_request_only(backend, fault, lazy):
    driver = make(backend, lazy=lazy)
    driver.add("free", [7, 8], SamplingParams(temperature=0.0, max_new_tokens=12))
    constrained(driver, "r", f"{fault}:5 6")
    constrained(driver, "good", "5 6")
    settle(driver)
    assert (driver.records["r"].end.finish_reason, driver.records["r"].end.status) == ("error", 500)
    assert driver.records["good"].tokens == [5, 6]
    assert driver.records["free"].tokens == oracle([7, 8], 12, VOCAB)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_constraint_that_is_too_complex_is_its_requests_fault(backend, lazy):
    driver = make(backend, lazy=lazy)
    constrained(driver, "r", "complex:5 6")
    constrained(driver, "good", "5 6")
    settle(driver)
    end = driver.records["r"].end
    assert (end.finish_reason, end.status) == ("error", 400)
    assert "too complex" in end.message
    assert "1,000 states" in end.message
    assert driver.records["good"].tokens == [5, 6]


def test_without_a_backend_a_constraint_is_refused():
    driver = Driver(OPTIONS)
    constrained(driver, "r", "5")
    end = driver.records["r"].end
    assert (end.status, "--grammar-backend" in end.message) == (400, True)


def test_a_backend_that_could_not_be_made_is_tried_again():
    attempts = []

    def tools():
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("tokenizer not found")
        return GrammarTools(Backend())

    driver = Driver(OPTIONS, make_grammar_tools=tools)
    constrained(driver, "first", "5")
    settle(driver)
    assert driver.records["first"].end.status == 400
    constrained(driver, "second", "5")
    settle(driver)
    assert driver.records["second"].tokens == [5]


@pytest.mark.parametrize("lazy", [False, True])
def test_a_constraint_after_reasoning_waits_for_its_end(backend, lazy):
    free = oracle([1, 2, 3], 30, VOCAB)
    cut = next(i for i in range(2, 30) if free[i - 1 : i + 1] not in [free[j - 1 : j + 1] for j in range(1, i)])
    driver = make(backend, reasoning_end=ReasoningEnd(tuple(free[cut - 1 : cut + 1])), lazy=lazy)
    constrained(driver, "r", "5 6", count=60, after_reasoning=True)
    constrained(driver, "now", "5 6", count=60)
    settle(driver)
    assert driver.records["r"].tokens == [*free[: cut + 1], 5, 6]
    assert driver.records["now"].tokens == [5, 6]


def test_the_end_of_reasoning_is_found_across_token_borders():
    pieces = {1: b"so", 2: b".</th", 3: b"ink>\n", 4: b"x"}
    end = ReasoningEnd((9,), b"</think>", pieces.__getitem__)
    assert [end.reached([1, 2, 3, 4][:n]) for n in range(1, 5)] == [False, False, True, False]
    assert ReasoningEnd((8, 9)).reached([1, 8, 9])


def test_a_retracted_request_keeps_its_place_in_the_grammar(backend):
    driver = make(backend)
    constrained(driver, "r", " ".join(str(token) for token in range(1, 20)), count=30)
    while len(driver.records["r"].tokens) < 5:
        driver.turn()
    driver.scheduler.pause("retract")
    driver.scheduler.paused = False
    settle(driver)
    assert driver.records["r"].tokens == list(range(1, 20))


class _Only:
    """A matcher that takes one given token after another."""

    def __init__(self, *tokens):
        self.left = list(tokens)

    def accept(self, token):
        return bool(self.left) and self.left.pop(0) == token

    def fill_mask(self, mask, row):
        mask[row] = 0
        if self.left:
            mask[row, self.left[0] // 32] |= 1 << self.left[0] % 32

    def finished(self):
        return not self.left

    def forced(self):
        return []


def _allowed(constraint):
    mask = np.zeros((1, 2), dtype=np.int32)
    constraint.fill(mask, 0)
    return {t for t in range(64) if int(mask[0, t // 32]) >> t % 32 & 1}


@pytest.mark.parametrize("begin", [(40,), (40, 41)])
def test_the_model_may_open_reasoning_or_obey_at_once(begin):
    end = ReasoningEnd((9,), begin=begin)
    direct = Constraint(_Only(5, 6), end, opening=end.begin)
    assert _allowed(direct) == {5, 40}
    assert direct.advance(5, [5])
    assert _allowed(direct) == {6}
    assert direct.advance(6, [5, 6])
    assert direct.finished()

    thinking, output = Constraint(_Only(5), end, opening=end.begin), []
    for token in (*begin, 30, 9):
        assert token in _allowed(thinking)
        output.append(token)
        assert thinking.advance(token, output)
        assert not thinking.finished()
    assert _allowed(thinking) == {5}
    assert not Constraint(_Only(5), end, opening=end.begin).advance(30, [30])
