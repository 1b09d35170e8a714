"""The arena: memory comes back with the last view of a tensor, and two living tensors never share a byte."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from sgl_cpu.kernels.arena import Arena


def test_memory_is_used_again_when_the_last_view_is_gone() -> None:
    arena = Arena()
    first = arena.empty(3, 100)
    view, address = first[1:].view(-1), first.data_ptr()
    del first
    assert arena.empty(3, 100).data_ptr() != address
    del view
    assert arena.empty(2, 100).data_ptr() == address
    assert address % 64 == 0


def test_rows_ahead_give_every_size_the_same_blocks() -> None:
    arena = Arena(rows_ahead=64)
    addresses = {arena.empty(rows, 100).data_ptr() for rows in (1, 64, 7)}
    assert len(addresses) == 1
    assert arena.empty(0, 100).shape == (0, 100)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 300), st.booleans()), max_size=40))
def test_living_tensors_are_apart(requests: list[tuple[int, int, bool]]) -> None:
    arena, living = Arena(), []
    for number, (rows, columns, keep) in enumerate(requests):
        tensor = arena.empty(rows, columns).fill_(number)
        if keep:
            living.append((number, tensor))
    assert all(bool((tensor == number).all()) for number, tensor in living)
    most = sum(4096 * (1 + 4 * rows * columns // 4096) for rows, columns, _ in requests)
    assert arena.reserved <= most


def test_tensors_are_ordinary() -> None:
    tensor = Arena().empty(4, 6)
    tensor.copy_(torch.arange(24.0).view(4, 6))
    assert torch.equal(tensor[1], torch.arange(6.0, 12.0))
