"""The seam for logit processors: Python code of the operator's that edits the logits of the requests that name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorRow:
    """What a processor is told of a row. ``params`` are the request's ``custom_params``."""

    rid: str
    slot: int
    generated: int
    params: Mapping[str, Any]


class LogitProcessor(Protocol):
    """Called once a step with the logits [n, V] fp32 of the rows that name it; edits them in place or returns new ones.

    It runs after penalties and bias and before the grammar's mask, which nothing can undo.
    """

    def __call__(self, logits: torch.Tensor, rows: list[ProcessorRow]) -> torch.Tensor | None: ...
