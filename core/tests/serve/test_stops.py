"""Stop strings and patterns: field cases 44 to 50, and independence of how the text is cut."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.stops import StopHit, Stops, compile_pattern


def run(stops: Stops, pieces: Iterable[str]) -> tuple[list[str], str | None]:
    """The pieces that came out, and what matched."""
    out = []
    for piece in pieces:
        result = stops.feed(piece)
        if isinstance(result, StopHit):
            return [*out, result.text], result.matched
        out.append(result)
    end = stops.finish()
    return ([*out, end.text], end.matched) if isinstance(end, StopHit) else ([*out, end], None)


@pytest.mark.field_case("46")
def test_case_46_the_held_tail_is_released_at_the_end() -> None:
    out, matched = run(Stops(["\n\n"], []), ["on Mars", "?", "\n"])
    assert "".join(out) == "on Mars?\n"
    assert matched is None


@pytest.mark.field_case("47")
def test_case_47_a_stop_that_begins_with_a_newline_holds_newlines_one_piece_at_most() -> None:
    out, _ = run(Stops(["\n<|endoftext|>"], []), list("a\nb\nc"))
    assert out == ["a", "", "\nb", "", "\nc", ""]


@pytest.mark.field_case("50")
def test_case_50_only_text_that_may_become_the_stop_is_held() -> None:
    out, _ = run(Stops(["###"], []), ["plain ", "text ", "with # one", " and ", "#", "# two"])
    assert out == ["plain ", "text ", "with # one", " and ", "", "## two", ""]


def test_a_stop_over_three_pieces_is_trimmed_exactly() -> None:
    assert run(Stops(["STOP"], []), ["abS", "TO", "Pxyz"]) == (["ab", "", ""], "STOP")


def test_a_false_start_inside_a_stop_is_found() -> None:
    assert run(Stops(["aab"], []), ["aa", "a", "b"]) == (["", "a", ""], "aab")


def test_of_several_the_first_complete_wins_and_of_those_the_longest() -> None:
    assert run(Stops(["b", "ab", "abcd"], []), ["xabcd"]) == (["x"], "ab")


def test_a_pattern_over_piece_borders() -> None:
    out, matched = run(Stops([], [r"\d{3}-\d{4}"]), ["call 55", "5-1", "234 now"])
    assert ("".join(out), matched) == ("call ", r"\d{3}-\d{4}")
    assert "".join(run(Stops([], [r"\d{3}-\d{4}"]), ["call 55", "5-x"])[0]) == "call 555-x"


def test_a_pattern_holds_only_what_it_may_match() -> None:
    assert run(Stops([], ["END"]), ["a", "bE", "c", "EN"])[0] == ["a", "b", "Ec", "", "EN"]


def test_strings_and_patterns_together() -> None:
    assert run(Stops(["stop"], ["[0-9]+!"]), ["a st", "op"])[1] == "stop"
    out, matched = run(Stops(["stop"], ["[0-9]+!"]), ["a 12", "3! stop"])
    assert ("".join(out), matched) == ("a ", "[0-9]+!")


@pytest.mark.parametrize("pattern", ["(", "a*", "$", "[z-a]"])
def test_patterns_that_cannot_be_served_are_refused(pattern: str) -> None:
    with pytest.raises(RequestError, match="stop_regex"):
        compile_pattern(pattern)


def test_a_pattern_that_runs_away_fails_its_request() -> None:
    stops = Stops([], [r"((a|a)+)+[xy]"])
    with pytest.raises(RequestError, match="too long"):
        stops.feed("a" * 40)


cuts = st.lists(st.integers(1, 5), min_size=30, max_size=30)


@pytest.mark.field_case("46", "47")
@settings(max_examples=300, deadline=None)
@given(st.text("ab\n", max_size=30), st.lists(st.text("ab\n", min_size=1, max_size=4), min_size=1, max_size=3), cuts)
def test_the_cut_changes_nothing(text: str, stops: list[str], sizes: list[int]) -> None:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    whole, matched = run(Stops(stops, []), [text])
    out, matched_cut = run(Stops(stops, []), [piece for piece in pieces if piece])
    assert ("".join(out), matched_cut) == ("".join(whole), matched)
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    if ends:
        end = min(ends)
        longest = max((stop for stop in stops if text[:end].endswith(stop)), key=len)
        assert "".join(whole) == text[: end - len(longest)]
        assert matched == longest
    else:
        assert ("".join(whole), matched) == (text, None)
