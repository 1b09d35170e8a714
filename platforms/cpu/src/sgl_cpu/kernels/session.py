"""Kernels: what the ops, the attention backend and the tape of one loaded model share, and whether they can serve it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

import sgl_ops
from sgl_core.api.worker import StepBatch
from sgl_torch.ops import OpUnavailable

from .arena import Arena
from .memory import WeightMemory
from .pilot import ThreadPilot

NAME = "sgl_ops"
"""The key of :class:`Kernels` in ``OpContext.shared``, and the name of the attention backend and the sampler."""


class Shares(Protocol):
    """What is read of ``OpContext`` and ``AttentionContext``."""

    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def threads(self) -> int: ...
    @property
    def shared(self) -> dict[str, Any]: ...


@dataclass(slots=True, kw_only=True)
class Kernels:
    """One per loaded model. ``exact`` multiplies with float32 activations (slow); otherwise integer formats quantize them to
    8 bits in blocks of 32."""

    threads: int
    exact: bool = False
    weights: WeightMemory = field(default_factory=WeightMemory)
    arena: Arena = field(default_factory=Arena)
    packed: weakref.WeakValueDictionary[tuple[Any, ...], Any] = field(default_factory=weakref.WeakValueDictionary)
    """Packed matrices by the memory they were packed from: a tied head takes the embedding's."""
    bf16_tokens: int | None = None
    """While the layers of a step run: its tokens from here on are of prompts, multiplied in bf16 tiles where the machine has them and
    the weights are no wider. None: none are, and a head's never."""
    bf16_requests: int | None = None
    """The request of that token."""
    pilot: ThreadPilot = field(init=False)
    packings: int = 0
    """How many matrices were packed so far: what was recorded before holds the addresses of older ones."""

    def __post_init__(self) -> None:
        self.pilot = ThreadPilot(self.threads, sgl_ops.set_threads)

    def note(self, sampler: str) -> str:
        """The line of the start-up table."""
        activations = "float32" if self.exact else "8 bit where weights are integers"
        if sgl_ops.bf16_tiles() and not self.exact:
            activations += ", prompts in bf16"
        return f"kernels: {sgl_ops.isa()}, {self.threads} threads, activations {activations}; sampler {sampler}"

    @staticmethod
    def of(context: Shares) -> Kernels:
        """The session of this model. Raises OpUnavailable where the kernels cannot serve it, with what to do."""
        why = why_not(context.dtype, context.device)
        if why:
            raise OpUnavailable(why)
        kernels = context.shared.get(NAME)
        if kernels is None:
            kernels = context.shared[NAME] = Kernels(threads=context.threads)
        if sgl_ops.threads() != kernels.threads:
            sgl_ops.set_threads(kernels.threads)
        return kernels

    def attention_tiles_from(self, requests: int) -> int | None:
        """The request, of ``requests`` in the step, from which on attention is computed in bf16 tiles whatever the cache holds; those
        before it are over a bf16 cache only. None: no request is."""
        if self.exact:
            return None
        return requests if self.bf16_requests is None else self.bf16_requests

    @contextmanager
    def prompts(self, step: StepBatch) -> Iterator[None]:
        """Inside the block the step's prompt tokens, as far as it says which they are, are computed in bf16 tiles. What an answer's
        tokens get stays the same whether they are decoded one by one or computed again."""
        if step.prompts_from is not None and not self.exact:
            self.bf16_requests = step.prompts_from
            self.bf16_tokens = int(step.query_lens[: step.prompts_from].sum())
        try:
            yield
        finally:
            self.bf16_requests = self.bf16_tokens = None

    @contextmanager
    def recording(self, arena: Arena) -> Iterator[None]:
        """Inside the block results lie in ``arena``, which nothing but recorded steps uses."""
        usual, self.arena = self.arena, arena
        try:
            yield
        finally:
            self.arena = usual


def why_not(dtype: torch.dtype, device: torch.device) -> str:
    """Why the kernels cannot serve, or ""."""
    library = sgl_ops.available()
    if not library:
        return library.reason
    if device.type != "cpu":
        return f"the kernels run on the CPU, not on {device}"
    if dtype != torch.float32:
        return f"the kernels compute in float32, not {str(dtype).removeprefix('torch.')}"
    return ""
