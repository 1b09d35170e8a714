"""``sgl bench roofline``: the page, and a platform whose worker cannot measure itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgl_core.cli.bench import main
from sgl_core.cli.bench.roofline import page
from sgl_core.serve.testing import save_model

RESULT = {
    "processor": "Fast Processor 9",
    "threads": 2,
    "load": 0.5,
    "read_gb_s": 20.0,
    "fp32_gflop_s": 150.0,
    "rows": [
        {"what": "decode, 1 streams", "ms": 10.0, "tokens_s": 100.0, "gb_s": 12.0, "gflop_s": 15.0},
        {"what": "sampling", "ms": 1.25, "tokens_s": 51200.0, "gb_s": 10.0, "gflop_s": None},
    ],
}


def test_page() -> None:
    lines = page(RESULT).splitlines()
    assert lines[0] == "Fast Processor 9, 2 threads, load 0.5 before"
    decode = next(line for line in lines if "decode" in line)
    assert decode.split() == ["decode,", "1", "streams", "10", "100", "12", "60%", "15", "10%"]
    assert next(line for line in lines if "sampling" in line).split()[-2:] == ["-", "-"]


def test_a_platform_that_cannot_measure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", str(save_model(tmp_path / "model")), "--device", "null"]) == 1
    assert "cannot measure itself" in capsys.readouterr().err


def test_a_wrong_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", "--no-such-option"]) == 2
    assert "no-such-option" in capsys.readouterr().err


def test_usage_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "roofline" in capsys.readouterr().out
