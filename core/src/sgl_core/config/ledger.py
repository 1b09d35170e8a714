"""The ledger: every declaration of a resolution in order, with who made it and why. `sgl explain` and ``/server_info`` read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .declare import Field
from .fields import fields
from .server_args import masked


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One declaration.

    ``verb`` is suggest, force, set_env or user. ``field`` is the field's name (for set_env the variable's). ``replaced`` is the value that
    stood before. ``applied`` is false for a suggestion that an explicit or forced value outweighed. ``place`` is file:line.
    """

    field: str
    value: Any
    verb: str
    rule: str
    stage: str
    dist: str
    version: str
    place: str
    because: str
    replaced: Any = None
    applied: bool = True
    overrode_user: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The entry as plain data, secrets starred."""
        data = asdict(self)
        declared = fields().get(self.field)
        if declared is not None:
            data["value"], data["replaced"] = masked(declared, self.value), masked(declared, self.replaced)
        return data


class Ledger:
    """Entries in the order in which they were made."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = tuple(entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self._entries == other._entries

    def __hash__(self) -> int:
        return hash(len(self._entries))

    def of(self, field: str) -> tuple[Entry, ...]:
        """One field's story."""
        return tuple(entry for entry in self._entries if entry.field == field)

    def winner(self, field: str) -> Entry | None:
        """The declaration that gave the field its final value, or None where no rule did."""
        applied = [entry for entry in self.of(field) if entry.applied]
        return applied[-1] if applied else None

    def to_list(self) -> list[dict[str, Any]]:
        """All entries as plain data."""
        return [entry.to_dict() for entry in self._entries]


def shown(declared: Field, value: Any) -> str:
    """A value as a message shows it."""
    return repr(masked(declared, value))
