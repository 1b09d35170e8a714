"""The measurements of ``sgl bench roofline`` on a tiny model: every row is there, costs are counted right, serving goes on after it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sgl_cpu.roofline import measure
from sgl_cpu.roofline.cost import ModelCost
from sgl_cpu.roofline.limits import Limits
from sgl_torch.testing.driver import Driver


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(threads=1, read_gb_s=10.0, fp32_gflop_s=100.0)
    monkeypatch.setattr(measure, "measure_limits", lambda threads: limits)
    monkeypatch.setattr(measure, "_SECONDS", 0.0)


def test_rows(worker_of: Any) -> None:
    worker = worker_of("llama", max_total_tokens=4096, max_running_requests=16)
    driver = Driver(worker.runner)
    before = driver.prefill(driver.start([3, 4, 5, 6]))[-1]
    found = worker.control("roofline", {})
    assert (found["threads"], found["read_gb_s"], found["fp32_gflop_s"]) == (1, 10.0, 100.0)
    assert [row["what"] for row in found["rows"]] == [
        "decode, 1 streams at 128 tokens",
        "decode, 16 streams at 128 tokens",
        "prefill, 255 tokens",
        "attention alone, 8 streams at 128 tokens",
        "sampling 64 rows, greedy",
        "sampling 64 rows, temperature, top-p, top-k",
    ]
    assert all(row["ms"] > 0 for row in found["rows"])
    decode = found["rows"][0]
    assert decode["tokens_s"] == pytest.approx(1e3 / decode["ms"])
    again = Driver(worker.runner)
    assert torch.equal(again.prefill(again.start([3, 4, 5, 6]))[-1], before)


def test_costs(worker_of: Any) -> None:
    cost = ModelCost.of(worker_of("llama_tied").runner)
    assert cost.head_elements == 199 * 48
    assert cost.layer_elements == 3 * (48 * (96 + 64) + 96 * 48 + 3 * 48 * 100)
    assert cost.kv_bytes == 3 * 2 * 2 * 16 * 2
    assert cost.attention == 3 * 96
    assert cost.layer_bytes >= 4 * cost.layer_elements
    assert cost.decode_flops(2, 10) == 2 * 2 * (cost.layer_elements + cost.head_elements) + 2 * 2 * 2 * 10 * 288
    assert cost.decode_bytes(2, 10) == cost.layer_bytes + cost.head_bytes + 2 * 10 * cost.kv_bytes


def test_limits_are_positive() -> None:
    from sgl_cpu.roofline import limits

    threads = torch.get_num_threads()
    found = limits.measure_limits(1)
    assert found.read_gb_s > 0.5
    assert found.fp32_gflop_s > 1
    assert torch.get_num_threads() == threads
