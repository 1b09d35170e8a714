"""The contract of graph runners: capture decode steps once, replay them without Python between the ops.

A platform hands one to TorchWorker (``graph_runner``). CUDA graphs and the CPU tape both fit: during capture the model's
forward runs on static input buffers and the ops record themselves; a batch the runner does not cover runs as usual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import torch

from sgl_core.api.worker import ProgressSink

if TYPE_CHECKING:
    from .forward_batch import ForwardBatch
    from .model_runner import ModelRunner


class GraphRunner(Protocol):
    """Replays steps. Called on the worker's step thread only."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines for the start-up table: sizes captured, the op that broke a graph."""
        ...

    def capture(self, progress: ProgressSink) -> None:
        """Record the step sizes to be served; called once, after weights and KV pool are in place."""
        ...

    def covers(self, batch: ForwardBatch) -> bool:
        """Whether this batch can be replayed (a decode batch of at most the largest captured size)."""
        ...

    def run(self, batch: ForwardBatch) -> torch.Tensor:
        """Hidden states [T, hidden], valid until the next run."""
        ...


GraphRunnerFactory: TypeAlias = "Callable[[ModelRunner], GraphRunner | None]"
"""``make(runner)``; None where graphs are switched off or not possible."""
