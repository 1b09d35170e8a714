"""The decode tape: the bits of the plain run at every size, padding, flags, breaks, and weights that are replaced."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sgl_cpu.kernels.breaks import Breaks, NotRecordable
from sgl_cpu.kernels.tape import GraphOptions, TapeRunner, decode_sizes
from sgl_ops import Tape
from sgl_torch.testing.driver import Driver


def graph(worker: Any) -> TapeRunner:
    runner = worker.runner.graph
    assert isinstance(runner, TapeRunner)
    return runner


def plain(runner: Any, step: Any) -> torch.Tensor:
    graph, runner.graph = runner.graph, None
    try:
        logits: torch.Tensor = runner.forward_logits(step)
        return logits
    finally:
        runner.graph = graph


@pytest.mark.parametrize("case", ["llama_biases", "mistral", "qwen3"])
def test_replay_gives_the_bits_of_the_plain_run(case: str, worker_of: Any) -> None:
    """Growing and shrinking batches, so that sizes share blocks; 17 to 19 rows are padded to 20."""
    worker = worker_of(case)
    runner, driver = worker.runner, Driver(worker.runner)
    sequences = [driver.start([3 + n, 50, 7 * n + 1, 9][: 2 + n % 3]) for n in range(20)]
    for sequence in sequences:
        driver.prefill(sequence)
    for count in (1, 19, 2, 16, 17, 5, 20):
        rows = sequences[:count]
        for sequence in rows:
            sequence.tokens.append((11 * count + sequence.slot) % 199)
        step = driver.batch([(sequence, 1) for sequence in rows])
        recorded = runner.forward_logits(step)
        assert graph(worker).covers(runner.prepare(step))
        assert torch.equal(recorded, plain(runner, step))
    assert sorted(size for size, _ in graph(worker)._tapes) == [1, 2, 5, 16, 20]
    assert "decode graphs: 18 sizes up to 24 requests, recorded when needed" in worker.notes[-1]


def test_padding_rows_write_no_key(worker_of: Any) -> None:
    worker = worker_of("llama", cuda_graph_bs_decode=[4])
    driver = Driver(worker.runner)
    sequence = driver.start([3, 4, 5])
    driver.prefill(sequence)
    sequence.tokens.append(9)
    step = driver.batch([(sequence, 1)])
    before = [tensor.clone() for tensor in worker.runner.pool.k]
    worker.runner.forward_logits(step)
    slot = int(step.write_slots[0])
    for was, now in zip(before, worker.runner.pool.k, strict=True):
        changed = (was.view(torch.int16) != now.view(torch.int16)).flatten(1).any(-1).nonzero().flatten().tolist()
        assert changed == [slot]


def test_prefill_and_larger_batches_are_not_covered(worker_of: Any) -> None:
    worker = worker_of("llama", cuda_graph_max_bs_decode=2)
    driver, tape = Driver(worker.runner), graph(worker)
    sequences = [driver.start([3, 4, 5, 6, 7]) for _ in range(3)]
    assert not tape.covers(worker.runner.prepare(driver.batch([(sequences[0], 2)])))
    assert tape.covers(worker.runner.prepare(driver.batch([(s, 1) for s in sequences[:2]])))
    assert not tape.covers(worker.runner.prepare(driver.batch([(s, 1) for s in sequences])))


def test_other_weights_are_recorded_anew(worker_of: Any) -> None:
    worker = worker_of("qwen2")
    runner, driver = worker.runner, Driver(worker.runner)
    sequence = driver.start([3, 4, 5])
    driver.prefill(sequence)
    sequence.tokens.append(9)
    step = driver.batch([(sequence, 1)])
    before = runner.forward_logits(step)
    layer = runner.model.model.layers[0].mlp.down_proj
    dense = layer.method._linear.unpack(layer.method.packed)
    layer.method._load(layer, 0, 2 * dense)
    after = runner.forward_logits(step)
    assert not torch.equal(before, after)
    assert torch.equal(after, plain(runner, step))


FULL = {"cuda_graph_config": {"decode": {"backend": "full"}}}


@pytest.mark.parametrize(
    ("values", "sizes"),
    [
        ({}, (1, 2, 3, 4, 5)),
        (FULL, (1, 2, 3, 4, 5)),
        ({"disable_decode_cuda_graph": True}, ()),
        ({"disable_cuda_graph": True}, ()),
        ({"cuda_graph_backend_decode": "disabled"}, ()),
        ({"cuda_graph_config": {"decode": {"backend": "disabled"}}}, ()),
        ({"cuda_graph_max_bs_decode": 3}, (1, 2, 3)),
        ({"cuda_graph_bs_decode": [4, 2, 99]}, (2, 4)),
        ({"disable_cuda_graph_padding": True}, (1, 2, 3, 4, 5)),
    ],
)
def test_flags(values: dict[str, Any], sizes: tuple[int, ...]) -> None:
    assert GraphOptions.from_config(values, 5).sizes == sizes


def test_sizes() -> None:
    assert decode_sizes(3) == [1, 2, 3]
    assert decode_sizes(70) == [*range(1, 17), *range(20, 65, 4), 70]
    assert not GraphOptions.from_config({"disable_cuda_graph_padding": True}, 40).padding
    assert len(GraphOptions.from_config({"disable_cuda_graph_padding": True}, 40).sizes) == 40


def test_switched_off(worker_of: Any) -> None:
    worker = worker_of("llama", disable_decode_cuda_graph=True)
    assert worker.notes[-1] == "decode graphs: none (switched off)"
    driver = Driver(worker.runner)
    assert not graph(worker).covers(worker.runner.prepare(driver.batch([(driver.start([3]), 1)])))


class TestTorchInARecording:
    """A layer of torch's own between the kernels."""

    def break_it(self, worker: Any) -> None:
        mlp = worker.runner.model.model.layers[1].mlp
        join = mlp.gate_up_proj.forward
        mlp.gate_up_proj.forward = lambda x: torch.relu(join(x)) * 2

    def step(self, worker: Any) -> Any:
        driver = Driver(worker.runner)
        sequence = driver.start([3, 4, 5])
        driver.prefill(sequence)
        sequence.tokens.append(9)
        return driver.batch([(sequence, 1)])

    def test_breaks_a_breakable_tape(self, worker_of: Any) -> None:
        worker = worker_of("llama", cuda_graph_config={"decode": {"backend": "breakable"}})
        self.break_it(worker)
        graph(worker)._tapes.clear()
        step = self.step(worker)
        for _ in range(2):
            assert torch.equal(worker.runner.forward_logits(step), plain(worker.runner, step))
        assert graph(worker)._tapes[1, False].tape.breaks == 2
        assert "broken by mul, relu" in graph(worker).notes[-1]

    def test_ends_the_tape_otherwise(self, worker_of: Any, caplog: pytest.LogCaptureFixture) -> None:
        worker = worker_of("llama")
        self.break_it(worker)
        graph(worker)._tapes.clear()
        step = self.step(worker)
        assert torch.equal(worker.runner.forward_logits(step), plain(worker.runner, step))
        assert "torch's relu cannot be recorded" in caplog.text
        assert graph(worker).notes[-1].startswith("decode graphs: none (torch's relu")
        assert not graph(worker).covers(worker.runner.prepare(step))

    def test_values_that_python_looks_at_cannot_be_recorded(self) -> None:
        tape, x = Tape(), torch.ones(3)
        with pytest.raises(NotRecordable, match="item"), tape.record(), Breaks(tape, allowed=True):
            x.sum().item()

    def test_work_in_place_is_done_again(self) -> None:
        tape, x = Tape(), torch.ones(4)
        with tape.record(), Breaks(tape, allowed=True) as breaks:
            y = x.view(2, 2)[0]
            y.add_(1)
            z = torch.cat((y, y))
        x.fill_(5)
        tape.replay()
        assert x.tolist() == [6, 6, 5, 5]
        assert z.tolist() == [6, 6, 6, 6]
        assert breaks.names == ["add_", "cat"]


def test_another_attention_backend_is_not_recorded(worker_of: Any) -> None:
    worker = worker_of("llama", attention_backend="torch_native", asked=("attention_backend",))
    assert "attention: torch_native" in worker.notes
    assert worker.notes[-1] == "decode graphs: none (the attention backend is not one that a tape records)"


def test_inputs_of_the_tape_are_its_own(worker_of: Any) -> None:
    """Two steps under way: the arrays of the second are prepared while the first is replayed."""
    worker = worker_of("llama")
    driver = Driver(worker.runner)
    sequence = driver.start([3, 4, 5])
    driver.prefill(sequence)
    sequence.tokens.append(9)
    step = driver.batch([(sequence, 1)])
    first = worker.runner.prepare(step)
    want = worker.runner.forward_logits(step)
    step.page_table[:] = 0
    hidden = worker.runner.hidden(first)
    assert torch.equal(worker.runner.model.logits(hidden), want)
