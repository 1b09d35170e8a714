"""Logit processors: Python code that edits the logits of the requests that name it, once a step for all of them together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import torch

from sgl_core.api.worker import NewRequest

log = logging.getLogger("sgl_torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorRow:
    """What a processor is told of a row. ``params`` are the request's ``custom_params``; ``output_ids`` are the ``generated``
    tokens so far. Nothing of it may be changed."""

    rid: str
    slot: int
    generated: int
    params: Mapping[str, Any]
    prompt_ids: Sequence[int] = ()
    output_ids: Sequence[int] = ()


class LogitProcessor(Protocol):
    """Called once a step with the logits [n, V] fp32 of the rows that name it; edits them in place or returns new ones.

    It runs after penalties and bias and before the grammar's mask, which nothing can undo. What it raises ends the request
    that it raises for, no other: it is then called again for each row alone. One that has
    ``check(params: Mapping, vocab_size: int)`` is asked at admission, where a ValueError refuses the request.
    """

    def __call__(self, logits: torch.Tensor, rows: list[ProcessorRow]) -> torch.Tensor | None: ...


FindProcessor = Callable[[str], LogitProcessor]
"""The processor of a request's ``logit_processor``. Raises ValueError where there is none."""


def no_processor(name: str) -> NoReturn:
    """Finds none."""
    raise ValueError(f"the logit processor {name!r} is not known here (known: none)")


@dataclass(slots=True)
class _Entry:
    request: NewRequest
    processor: LogitProcessor
    output_ids: list[int]

    def row(self, slot: int) -> ProcessorRow:
        return ProcessorRow(
            rid=self.request.rid,
            slot=slot,
            generated=len(self.output_ids),
            params=self.request.sampling.custom_params or {},
            prompt_ids=self.request.prompt_ids,
            output_ids=self.output_ids,
        )


class Processing:
    """The requests in flight that have a processor, and what they have generated."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._entries: dict[int, _Entry] = {}

    def admit(self, request: NewRequest, find: FindProcessor) -> None:
        """Take a request in if it names a processor. Raises ValueError where that does not serve it."""
        self._entries.pop(request.slot, None)
        if request.logit_processor is None:
            return
        processor = find(request.logit_processor)
        check = getattr(processor, "check", None)
        if check is not None:
            check(request.sampling.custom_params or {}, self._vocab_size)
        self._entries[request.slot] = _Entry(request, processor, list(request.output_ids))

    def __bool__(self) -> bool:
        return bool(self._entries)

    def free(self, slot: int) -> None:
        self._entries.pop(slot, None)

    def apply(self, logits: torch.Tensor, slots: Sequence[int]) -> dict[int, str]:
        """Edit the rows of ``logits`` [R, V] in place; rows of one processor together. Returns row to what went wrong with it."""
        groups: dict[int, list[int]] = {}
        for row, slot in enumerate(slots):
            entry = self._entries.get(slot)
            if entry is not None:
                groups.setdefault(id(entry.processor), []).append(row)
        errors: dict[int, str] = {}
        for rows in groups.values():
            why = self._run(logits, rows, slots)
            if why and len(rows) > 1:
                errors |= {row: why for row in rows if (why := self._run(logits, [row], slots))}
            elif why:
                errors[rows[0]] = why
        return errors

    def _run(self, logits: torch.Tensor, rows: list[int], slots: Sequence[int]) -> str:
        """Have one processor edit ``rows``; what went wrong, or "". Rows are left as they were then."""
        entries = [self._entries[slots[row]] for row in rows]
        places = torch.tensor(rows, device=logits.device)
        chosen = logits[places]
        try:
            changed = entries[0].processor(
                chosen, [entry.row(slots[row]) for row, entry in zip(rows, entries, strict=True)]
            )
            result = chosen if changed is None else changed
            if not isinstance(result, torch.Tensor) or result.shape != chosen.shape:
                raise TypeError(f"it returned {_shown(result)} for logits {list(chosen.shape)}")
            logits[places] = result.to(logits)
        except Exception as error:
            log.warning("a logit processor failed", exc_info=error)
            return f"the logit processor failed: {type(error).__name__}: {error}"
        return ""

    def count(self, slots: Sequence[int], tokens: torch.Tensor) -> None:
        """Note the tokens [R] that were drawn for ``slots``."""
        rows = [row for row, slot in enumerate(slots) if slot in self._entries]
        if rows:
            for row, token in zip(rows, tokens[torch.tensor(rows, device=tokens.device)].tolist(), strict=True):
                self._entries[slots[row]].output_ids.append(token)


def _shown(value: object) -> str:
    return f"a tensor {list(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
