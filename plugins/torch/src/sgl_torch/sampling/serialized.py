"""Logit processors that clients send: classes pickled by dill, as the reference system's clients do. Loading one runs its code."""

from __future__ import annotations

import importlib.util
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from .processors import LogitProcessor, ProcessorRow


class ListProcessor(Protocol):
    """The reference system's form of a processor: one mapping of parameters a row."""

    def __call__(self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]]) -> torch.Tensor | None: ...


@dataclass(frozen=True, slots=True)
class RequestView:
    """What such a processor finds under ``__req__``."""

    rid: str
    origin_input_ids: list[int]
    output_ids: list[int]
    custom_params: Mapping[str, Any]


class Adapted:
    """A processor of that form as one of ours."""

    def __init__(self, processor: ListProcessor) -> None:
        self._processor = processor

    def __call__(self, logits: torch.Tensor, rows: list[ProcessorRow]) -> torch.Tensor | None:
        return self._processor(logits, [self._params(row) for row in rows])

    @staticmethod
    def _params(row: ProcessorRow) -> dict[str, Any]:
        view = RequestView(row.rid, list(row.prompt_ids), list(row.output_ids), row.params)
        return {**row.params, "__req__": view}


def load_serialized(text: str) -> LogitProcessor:
    """An instance of the class in ``{"callable": hex of its pickle}``. Raises ValueError where that gives no processor."""
    try:
        made = _unpickled(bytes.fromhex(json.loads(text)["callable"]))()
    except Exception as error:
        raise ValueError(
            f"custom_logit_processor cannot be loaded: {type(error).__name__}: {error}{_hint(error)}"
        ) from error
    if not callable(made):
        raise ValueError(f"custom_logit_processor: a {type(made).__name__} cannot be called with logits and parameters")
    return Adapted(made)


def _unpickled(data: bytes) -> Any:
    """By dill, which reads what pickle writes too; by pickle where dill is not installed."""
    dill = importlib.import_module("dill") if importlib.util.find_spec("dill") else pickle
    return dill.loads(data)


def _hint(error: Exception) -> str:
    """What helps, as far as the error says."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "dill":
        return " (the server needs dill for this one: pip install dill)"
    if isinstance(error, ModuleNotFoundError):
        return " (the class is pickled by name; define it where you send it from, or install its package here)"
    return ""
