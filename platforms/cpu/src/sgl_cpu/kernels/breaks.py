"""What torch itself computes while a step is recorded: it breaks the tape, or the recording is given up, naming the op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from sgl_ops import Tape
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_NO_WORK = frozenset({"aten::empty.memory_format", "aten::empty_strided", "aten::lift_fresh", "aten::_reshape_alias"})


class NotRecordable(RuntimeError):
    """A step holds something that a tape cannot replay; the message names it."""


class Breaks(TorchDispatchMode):
    """Watches torch's ops inside ``tape.record()``. Views are no work; each other op becomes a Python part of the tape that
    computes again into the same tensors, or raises :class:`NotRecordable` where no breaks are ``allowed``."""

    def __init__(self, tape: Tape, allowed: bool) -> None:
        super().__init__()
        self._tape = tape
        self._allowed = allowed
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        out = func(*args, **kwargs)
        name = str(func._schema.name) + (f".{func._overloadname}" if func._overloadname != "default" else "")
        if name in _NO_WORK or _is_view(func):
            return out
        if not self._allowed:
            raise NotRecordable(f"{name} of torch")
        results = tree_leaves(out)
        if not all(isinstance(result, torch.Tensor) for result in results):
            raise NotRecordable(f"{name} of torch, whose result decides what comes next")
        self.names.append(name)
        self._tape.call(_again(func, args, kwargs, results))
        return out


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def _again(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], results: list[torch.Tensor]
) -> Callable[[], None]:
    """Compute anew, into the tensors that the recorded ops read."""

    def again() -> None:
        for old, new in zip(results, tree_leaves(func(*args, **kwargs)), strict=True):
            if new.data_ptr() != old.data_ptr():
                old.copy_(new)

    return again
