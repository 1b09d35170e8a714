"""The thread pilot in a simulated machine: neighbours that come and go, steps that differ, and no trial without a reason."""

from __future__ import annotations

import pytest

from sgl_cpu.kernels.pilot import STEPS, ThreadPilot


class Machine:
    """A clock that steps advance: ``cost`` gives seconds by threads; threads beyond ``free`` are put aside."""

    def __init__(self, full: int) -> None:
        self.now = 0.0
        self.lost = 0
        self.free = full
        self.used: list[int] = []
        self.pilot = ThreadPilot(full, self.used.append, clock=lambda: self.now, preempted=lambda: self.lost)

    def step(self) -> None:
        threads = self.pilot.threads
        if threads > self.free:
            self.now += 0.020
            self.lost += 2
        else:
            self.now += 0.012 / threads + 0.001

    def run(self, seconds: float, key: int = 1) -> float:
        """Steps a second over some time."""
        start, count = self.now, 0
        while self.now - start < seconds:
            self.pilot.run(key, self.step)
            count += 1
        return count / (self.now - start)


def test_without_neighbours_nothing_is_tried() -> None:
    machine = Machine(2)
    machine.run(60)
    assert machine.used == []


@pytest.mark.parametrize("full", [2, 4, 16])
def test_neighbours_come_and_go(full: int) -> None:
    machine = Machine(full)
    quiet = machine.run(20)
    machine.free = full // 2
    machine.run(20)
    best = 1 / (0.012 / machine.free + 0.001)
    assert machine.run(20) > 0.9 * best
    machine.free = full
    machine.run(40)
    assert machine.run(20) > 0.95 * quiet


def test_threads_that_pay_in_spite_of_neighbours_stay() -> None:
    machine = Machine(2)
    machine.lost = 1 << 20
    step = machine.step

    def crowded() -> None:
        machine.lost += 3
        step()

    machine.step = crowded  # type: ignore[method-assign]
    speed = machine.run(60)
    assert set(machine.used) == {1, 2}
    assert speed > 0.95 / 0.007


def test_steps_of_other_sizes_end_a_trial() -> None:
    machine = Machine(2)
    machine.free = 1
    for number in range(40 * STEPS):
        machine.pilot.run(number // (STEPS + 3), machine.step)
    assert machine.pilot.threads in (1, 2)
    assert machine.pilot._best == 2


def test_long_steps_get_all_threads() -> None:
    machine = Machine(2)
    machine.free = 1
    machine.run(20)
    assert machine.pilot.threads == 1
    machine.pilot.all_threads()
    assert machine.pilot.threads == 2
    machine.pilot.run(1, machine.step)
    assert machine.pilot.threads == 1


def test_one_thread_is_left_alone() -> None:
    machine = Machine(1)
    machine.free = 0
    machine.run(10)
    assert machine.used == []
