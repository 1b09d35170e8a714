"""Strict thinking: excluded texts cannot be completed by any cut into tokens, and what follows the thinking is free or held."""

import threading

import numpy as np
import pytest

from sgl_core.api.sampling import GrammarRequest, SamplingParams
from sgl_core.engine.grammar_state import Constraint, ReasoningEnd
from sgl_core.engine.grammars import GrammarTools
from sgl_core.engine.null_worker import NullOptions
from sgl_core.engine.thinking import Excluded, Unbound
from sgl_core.testing.engine_driver import Driver, oracle

PIECES = [b"", b"<", b"think", b">", b"<think", b"th", b"ink>x", b"a<think>b", b"</", b"</think>", b"so ", b"<call>"]
EOS = 0
VOCAB = 96


def piece(token):
    return PIECES[token] if token < len(PIECES) else b"w"


def allowed(fill, *output):
    mask = np.full((1, 3), -1, np.int32)
    fill(mask, 0, list(output))
    return {t for t in range(len(PIECES)) if int(mask[0, t // 32]) >> t % 32 & 1}


def test_what_would_complete_an_excluded_text_is_struck_out():
    excluded = Excluded([b"<think>"], [EOS], piece, VOCAB)
    free = {1, 2, 3, 4, 5, 6, 8, 9, 10, 11}
    assert allowed(excluded.strike) == free
    assert allowed(excluded.strike, 10, 4) == free - {3}
    assert allowed(excluded.strike, 1, 2) == free - {3}
    assert allowed(excluded.strike, 1, 5) == free - {6}
    assert allowed(excluded.strike, 8, 2) == free


def test_tokens_across_words_of_the_mask():
    excluded = Excluded([], [31, 32, 95], piece, VOCAB)
    mask = np.full((1, 3), -1, np.int32)
    excluded.strike(mask, 0, [])
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    assert np.flatnonzero(bits == 0).tolist() == [31, 32, 95]


def tools(begin=()):
    return GrammarTools(None, ReasoningEnd((9,), begin=begin), Excluded([b"<think>", b"<call>"], [EOS], piece, VOCAB))


def serve(driver):
    pause = threading.Event()
    while driver.scheduler.busy or driver.scheduler.compiling:
        if not driver.turn() and driver.scheduler.compiling:
            pause.wait(0.001)


def ask(driver, prompt, **fields):
    driver.add(
        "r",
        prompt,
        SamplingParams(temperature=0.0, max_new_tokens=40),
        grammar=GrammarRequest(kind="thinking", **fields),
        eos_token_ids=(EOS,),
    )
    serve(driver)
    return driver.records["r"]


@pytest.mark.parametrize("lazy", [False, True])
def test_thinking_holds_no_end_and_the_answer_behind_it_is_free(lazy):
    options = NullOptions(check=True, num_pages=64, page_size=4, max_requests=8, vocab_size=VOCAB)
    ended = 0
    for start in range(12):
        free = oracle([start, 7], 40, VOCAB)
        driver = Driver(options, lazy=lazy, make_grammar_tools=tools)
        tokens = ask(driver, [start, 7], after_reasoning=True).tokens
        text = b"".join(map(piece, tokens))
        end = tokens.index(9) if 9 in tokens else len(tokens)
        assert EOS not in tokens[:end]
        assert b"<think>" not in b"".join(map(piece, tokens[:end]))
        assert b"<call>" not in b"".join(map(piece, tokens[:end]))
        assert text
        if end < len(tokens) - 1:
            ended += 1
            assert tokens[end + 1 :] == oracle([start, 7, *tokens[: end + 1]], len(tokens) - end - 1, VOCAB, ends=[EOS])
        elif EOS not in free and not {7, 11} & set(free):
            assert tokens == free
    assert ended


@pytest.mark.parametrize("begin", [(4,), (1, 2, 3)])
def test_a_model_that_may_think_is_held_only_if_it_does(begin):
    end = ReasoningEnd((9,), begin=begin)
    excluded = Excluded([b"<think>"], [EOS], piece, VOCAB)
    everything = set(range(len(PIECES)))

    direct = Constraint(Unbound(), end, opening=begin, excluded=excluded)
    assert allowed(direct.fill) == everything
    assert direct.advance(10, [10])
    assert direct.spent

    thinks, output = Constraint(Unbound(), end, opening=begin, excluded=excluded), []
    for token in begin:
        assert allowed(thinks.fill, *output) == everything
        output.append(token)
        assert thinks.advance(token, output)
        assert not thinks.spent
    assert EOS not in allowed(thinks.fill, *output)
    output.append(9)
    assert thinks.advance(9, output)
    assert thinks.spent

    if len(begin) > 1:  # what looked like the marker was none
        other = Constraint(Unbound(), end, opening=begin, excluded=excluded)
        assert other.advance(1, [1])
        assert not other.spent
        assert other.advance(10, [1, 10])
        assert other.spent


def test_without_a_backend_only_the_thinking_is_held():
    driver = Driver(NullOptions(vocab_size=VOCAB), make_grammar_tools=tools)
    driver.add("r", [1], SamplingParams(max_new_tokens=2), grammar=GrammarRequest(kind="regex", text="a"))
    serve(driver)
    assert (driver.records["r"].end.status, "--grammar-backend none" in driver.records["r"].end.message) == (400, True)
