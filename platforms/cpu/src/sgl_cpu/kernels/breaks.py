"""What torch itself computes while a step is recorded: it breaks the tape, or the recording is given up, naming the op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from sgl_ops import Tape

_FRESH = frozenset({"empty", "empty_like", "new_empty", "from_numpy"})
"""Make a tensor and compute nothing."""
_LOOKS = frozenset(
    {"item", "tolist", "numpy", "equal", "allclose", "__bool__", "__int__", "__float__", "__index__", "__array__"}
)
"""Bring values to Python, which then decides what comes next: no replay can follow that."""


class NotRecordable(RuntimeError):
    """A step holds something that a tape cannot replay; the message names it."""


class Breaks(TorchFunctionMode):
    """Watches torch's functions inside ``tape.record()``. Views are no work; each other function becomes a Python part of the
    tape that computes again into the same tensors, or raises :class:`NotRecordable` where no breaks are ``allowed``.

    (A dispatch mode would see more of torch, but importing what it needs takes more than a second.)
    """

    def __init__(self, tape: Tape, allowed: bool) -> None:
        super().__init__()
        self._tape = tape
        self._allowed = allowed
        self.names: list[str] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", str(func))
        if name in _LOOKS:
            raise NotRecordable(f"torch's {name}")
        out = func(*args, **kwargs)
        results = list(_tensors(out))
        if not results or name in _FRESH or _is_view(name, results, args, kwargs):
            return out
        if not self._allowed:
            raise NotRecordable(f"torch's {name}")
        self.names.append(name)
        self._tape.call(_again(func, args, kwargs, results))
        return out


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _is_view(name: str, results: list[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the function only looked at its first argument's memory another way. In-place ones end in ``_`` or set items."""
    if (
        "out" in kwargs
        or name == "__setitem__"
        or (name.endswith("_") and not name.endswith("__"))
        or name[:3] == "__i"
    ):
        return False
    given = next(_tensors(args), None)
    if given is None:
        return False
    memory = given.untyped_storage().data_ptr()
    return all(result.untyped_storage().data_ptr() == memory for result in results)


def _again(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], results: list[torch.Tensor]
) -> Callable[[], None]:
    """Compute anew, into the tensors that the recorded ops read."""

    def again() -> None:
        for old, new in zip(results, _tensors(func(*args, **kwargs)), strict=True):
            if new.data_ptr() != old.data_ptr():
                old.copy_(new)

    return again
