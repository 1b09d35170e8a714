"""Turns what callers hold (an address, a numpy array, a torch CPU tensor) into an address, without a copy."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np


class HasDataPtr(Protocol):
    """A torch tensor, seen from here."""

    def data_ptr(self) -> int: ...


Data: TypeAlias = "int | np.ndarray[Any, Any] | HasDataPtr"


def address(data: Data | None) -> int:
    """The address of the first element; None and 0 are the null pointer. The caller keeps the memory alive."""
    if data is None:
        return 0
    if isinstance(data, int):
        return data
    if isinstance(data, np.ndarray):
        return int(data.__array_interface__["data"][0])
    return int(data.data_ptr())


def is64(data: Data, wide: bool | None) -> int:
    """1 if an index array holds 64-bit numbers: said by the caller, or read off its dtype."""
    if wide is not None:
        return int(wide)
    name = str(getattr(data, "dtype", "int32"))
    return int(name.endswith("int64"))
