"""The benchmark of the front: what it reads, what it finds wrong, and a small run of it against a server."""

from __future__ import annotations

import json
from pathlib import Path

import front
import pytest
import stream_load

from sgl_core.serve.testing import save_model


def answer(*texts: str, end: str = "length", tail: str = "data: [DONE]\n\n", **more: str) -> stream_load.Stream:
    events = [{"id": "a", "choices": [{"delta": {"content": text}, "finish_reason": None}]} for text in texts]
    events.append({"id": more.get("id", "a"), "choices": [{"delta": {}, "finish_reason": end}]})
    events.append({"id": "a", "choices": [], "usage": {"completion_tokens": len(texts)}})
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + tail
    raw = b"HTTP/1.1 200 OK\r\nx: y\r\n\r\n"
    for at in range(0, len(body), 50):
        part = body[at : at + 50].encode()
        raw += b"%x\r\n%b\r\n" % (len(part), part)
    raw += stream_load.END
    return stream_load.Stream(0, pieces=[raw[at : at + 7] for at in range(0, len(raw), 7)])


def test_an_answer_is_read_however_it_was_cut() -> None:
    found = stream_load.read(answer("one ", "", "two"))
    assert (found.text, found.events, found.tokens, found.fault) == ("one two", 2, 3, "")


@pytest.mark.parametrize(
    ("stream", "fault"),
    [
        (answer("x", tail=""), "no end mark"),
        (answer("x", end="stop"), "ended"),
        (answer("x", id="b"), "several"),
        (stream_load.Stream(0, lost=True), "no whole answer"),
    ],
)
def test_what_is_wrong_is_named(stream: stream_load.Stream, fault: str) -> None:
    assert fault in stream_load.read(stream).fault


def test_quantiles_between_two_readings() -> None:
    before = [(1.0, 5.0), (2.0, 5.0), (float("inf"), 5.0)]
    after = [(1.0, 15.0), (2.0, 105.0), (float("inf"), 105.0)]
    assert front.quantile(before, after, 0.05) == pytest.approx(0.5)
    assert front.quantile(before, after, 0.55) == pytest.approx(1.5)


def test_a_small_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = save_model(tmp_path / "tiny")
    file = tmp_path / "result.json"
    words = ["--model", str(model), "--streams", "8", "--tokens", "20", "--step-ms", "2", "--json", str(file)]
    assert front.main(words) == 0
    (result,) = json.loads(file.read_text())
    assert result["wrong"] == 0
    assert result["delivery_p99_ms"] > 0
    assert "8 streams, stream_interval 1" in capsys.readouterr().out
