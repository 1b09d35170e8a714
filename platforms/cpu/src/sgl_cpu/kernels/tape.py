"""TapeRunner: decode steps recorded once per batch size over fixed buffers and replayed in C++ without Python between the ops."""

from __future__ import annotations

import bisect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

import sgl_ops
from sgl_core.api.worker import ProgressSink, StepBatch
from sgl_torch.forward_batch import ForwardBatch

from .arena import Arena
from .attention import KernelAttention, Plan
from .breaks import Breaks, NotRecordable
from .session import Kernels

if TYPE_CHECKING:
    from sgl_torch.model_runner import ModelRunner

log = logging.getLogger("sgl_cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions:
    """What the graph flags ask for. ``sizes`` are the batch sizes to record, rising; () is none. A batch is padded to the next size
    where ``padding``; ``breakable`` lets torch's own ops stand between recorded ones."""

    sizes: tuple[int, ...] = ()
    padding: bool = True
    breakable: bool = False

    @classmethod
    def from_config(cls, config: Any, max_requests: int) -> GraphOptions:
        """Read ``disable_decode_cuda_graph`` and its kin of a resolved configuration."""
        phase: Mapping[str, Any] = (config.get("cuda_graph_config") or {}).get("decode") or {}
        backend = phase.get("backend") or config.get("cuda_graph_backend_decode") or "full"
        if backend == "disabled" or config.get("disable_decode_cuda_graph") or config.get("disable_cuda_graph"):
            return cls()
        padding = not config.get("disable_cuda_graph_padding")
        largest = min(config.get("cuda_graph_max_bs_decode") or max_requests, max_requests)
        asked = config.get("cuda_graph_bs_decode")
        sizes = asked or (decode_sizes(largest) if padding else range(1, largest + 1))
        return cls(
            sizes=tuple(sorted({size for size in sizes if 1 <= size <= largest})),
            padding=padding,
            breakable=backend == "breakable",
        )


def decode_sizes(largest: int) -> list[int]:
    """Every size to 16, then steps of 4 to 64 and of 16 beyond: a padded row costs as much as a real one, a recording little."""
    return sorted(
        {*range(1, min(largest, 16) + 1), *range(20, min(largest, 64) + 1, 4), *range(80, largest, 16), largest}
    )


@dataclass(frozen=True, slots=True)
class Recorded:
    """A tape and where its results lie: hidden states [size, hidden] (``states`` is the same memory), and logits [size, vocab] where
    it computes them."""

    tape: sgl_ops.Tape
    hidden: torch.Tensor
    states: NDArray[np.float32]
    logits: torch.Tensor | None


class TapeRunner:
    """See :class:`sgl_torch.graph.GraphRunner`. ``heading`` is a line before its notes. A size is recorded when it is first needed (some milliseconds)."""

    def __init__(self, runner: ModelRunner, kernels: Kernels, options: GraphOptions, heading: str = "") -> None:
        self._runner = runner
        self._kernels = kernels
        self._options = options
        self._heading = (heading,) if heading else ()
        self._sizes: Sequence[int] = options.sizes
        self._tapes: dict[tuple[int, bool], Recorded] = {}
        self._packings = kernels.packings
        self.breaks: tuple[str, ...] = ()
        """The torch ops that stand between recorded ones."""
        self.why_off = "" if options.sizes else "switched off"
        if options.sizes and not isinstance(runner.attention, KernelAttention):
            self._give_up("the attention backend is not one that a tape records")
        largest = max(self._sizes, default=0)
        self._arena = Arena(rows_ahead=largest)
        self._ids, self._positions, self._slots = (torch.zeros(largest, dtype=torch.int64) for _ in range(3))
        self._ids_array, self._positions_array = self._ids.numpy(), self._positions.numpy()
        self._slots_array = self._slots.numpy()
        stride = 1 + (runner.pool.num_slots - 1) // runner.page_size
        self._context, self._ones = np.zeros(largest, np.int32), np.ones(largest, np.int32)
        self._table = np.zeros((largest, min(stride, self._longest())), np.int32)

    @property
    def notes(self) -> tuple[str, ...]:
        if self.why_off:
            return (*self._heading, f"decode graphs: none ({self.why_off})")
        broken = f", broken by {', '.join(self.breaks)}" if self.breaks else ""
        sizes = f"{len(self._sizes)} sizes up to {self._sizes[-1]} requests"
        return (*self._heading, f"decode graphs: {sizes}, recorded when needed{broken}")

    def capture(self, progress: ProgressSink) -> None:
        """Record the smallest size, which shows whether the model can be recorded at all."""
        if self._sizes:
            progress("graphs", 0, 1)
            self._tape(self._sizes[0])
            progress("graphs", 1, 1)

    def covers(self, batch: ForwardBatch) -> bool:
        count = len(batch.query_lens)
        if not batch.decode or not self._sizes or count > self._sizes[-1] or not count:
            return False
        return self._options.padding or self._size(count) == count

    def run(self, batch: ForwardBatch) -> torch.Tensor:
        count = len(batch.query_lens)
        size = self._size(count)
        recorded = self._tape(size)
        if recorded is None:
            batch.attention_plan = self._runner.attention.plan(batch)
            return self._runner.model(batch)
        self._fill(batch, count, size)
        self._kernels.pilot.run(size, recorded.tape.replay)
        return recorded.hidden[:count]

    def ready(self, count: int) -> bool:
        """Whether :meth:`logits` can replay a step of ``count`` rows."""
        if not 0 < count <= max(self._sizes, default=0):
            return False
        return (self._options.padding or self._size(count) == count) and self._tape(
            self._size(count), head=True
        ) is not None

    def logits(self, step: StepBatch, ids: NDArray[np.int64]) -> tuple[torch.Tensor, NDArray[np.bool_]]:
        """A whole decode step, the head included, by one replay. ``ids`` [R] are its tokens; its rows must be :meth:`ready`.

        Gives logits [R, vocab], valid and free to change until the next run, and whether each row's hidden state is finite.
        """
        count = len(ids)
        size = self._size(count)
        recorded = self._tape(size, head=True)
        assert recorded is not None
        assert recorded.logits is not None
        self._ids_array[:count] = ids
        self._fill_rows(step.context_lens, step.write_slots, step.page_table, count, size)
        self._positions_array[:count] = step.context_lens
        self._kernels.pilot.run((size, True), recorded.tape.replay)
        finite = np.logical_and.reduce(np.isfinite(recorded.states[:count]), axis=1)
        return recorded.logits[:count], finite

    def profile(self, batch: ForwardBatch, repeats: int = 5) -> dict[str, float]:
        """Seconds a step spends in each kind of op; empty where the step is not covered."""
        recorded = self._tape(self._size(len(batch.query_lens))) if self.covers(batch) else None
        if recorded is None:
            return {}
        self._fill(batch, len(batch.query_lens), self._size(len(batch.query_lens)))
        return {name: seconds for name, (_, seconds) in recorded.tape.profile(repeats).items()}

    def _fill(self, batch: ForwardBatch, count: int, size: int) -> None:
        self._ids[:count] = batch.input_ids
        self._positions[:count] = batch.positions
        self._fill_rows(batch.context_lens, batch.write_slots.numpy(), batch.page_table, count, size)

    def _fill_rows(self, context: Any, slots: Any, table: Any, count: int, size: int) -> None:
        self._slots_array[:count] = slots
        self._context[:count] = context
        self._table[:count, : table.shape[1]] = table
        if count < size:  # rows that nobody reads: they see one key and write none
            self._ids_array[count:size] = 0
            self._positions_array[count:size] = 0
            self._slots_array[count:size] = -1
            self._context[count:size] = 0

    def _size(self, count: int) -> int:
        return self._sizes[bisect.bisect_left(self._sizes, count)]

    def _tape(self, size: int, head: bool = False) -> Recorded | None:
        if self._packings != self._kernels.packings:  # other weights were loaded: the old ones are gone
            self._tapes.clear()
            self._packings = self._kernels.packings
        if (size, head) not in self._tapes and not self.why_off:
            try:
                self._tapes[size, head] = self._record(size, head)
            except NotRecordable as error:
                self._give_up(f"{error} cannot be recorded")
        return self._tapes.get((size, head))

    @torch.inference_mode()
    def _record(self, size: int, head: bool) -> Recorded:
        runner, tape = self._runner, sgl_ops.Tape()
        logits: torch.Tensor | None = None
        batch = ForwardBatch(
            input_ids=self._ids[:size],
            positions=self._positions[:size],
            write_slots=self._slots[:size],
            query_lens=self._ones[:size].astype(np.int64),
            context_lens=self._context[:size].astype(np.int64),
            page_table=np.zeros((size, 1), np.int64),
            last_index=np.arange(size),
            page_size=runner.page_size,
            decode=True,
            attention=runner.attention,
            attention_plan=Plan(
                table=self._table[:size],
                query=self._ones[:size],
                context=self._context[:size],
                tokens=size,
                requests=size,
            ),
        )
        breaks = Breaks(tape, self._options.breakable)
        with self._kernels.recording(self._arena), tape.record(), breaks:
            hidden = runner.model(batch)
            if head:
                logits = runner.model.logits(hidden)
        tape.keep(self._arena, batch, logits)
        if breaks.names and not self.breaks:
            self.breaks = tuple(sorted(set(breaks.names)))
            log.info("decode graphs are broken by %s", ", ".join(self.breaks))
        return Recorded(tape, hidden, hidden.numpy(), logits)

    def _give_up(self, why: str) -> None:
        self.why_off, self._sizes = why, ()
        self._tapes.clear()
        log.warning("decode runs without recorded graphs: %s", why)

    def _longest(self) -> int:
        """Pages of the longest sequence."""
        return -(-self._runner.context_length // self._runner.page_size) + 1
