"""ModelRunner: a loaded model with its KV pool and attention backend; turns step batches into hidden states and logits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from sgl_core.api.worker import StepBatch

from .attention.base import AttentionBackend
from .forward_batch import ForwardBatch, make_forward_batch
from .graph import GraphRunner
from .kv_pool import KVPool
from .ops import Ops, WeightPart
from .weights import LoadReport


class CausalModel(Protocol):
    """The contract of the model classes in the registry ``models``: made as ``Model(info: ModelInfo, context: LayerContext)``."""

    def __call__(self, batch: ForwardBatch) -> torch.Tensor:
        """Hidden states [T, hidden], ready for the head."""
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """fp32 logits [N, vocab] of chosen rows [N, hidden]."""
        ...

    def load_weights(
        self, weights: Iterable[tuple[str, WeightPart]], progress: Callable[[int, int], None] | None = None
    ) -> LoadReport: ...


class PoolingModel(Protocol):
    """What a model adds to that contract where it answers with a vector a prompt and generates nothing. It gets prompts whole."""

    def pool(self, hidden: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        """fp32 vectors [R, size], one a row, of its hidden states [T, hidden]: embeddings, or logits of classes."""
        ...


class ModelRunner:
    """Runs steps on one device. Everything here happens on the worker's step thread, under inference mode."""

    def __init__(
        self,
        *,
        model: CausalModel,
        ops: Ops,
        pool: KVPool,
        attention: AttentionBackend,
        page_size: int,
        max_requests: int,
        context_length: int,
        device: torch.device,
    ) -> None:
        self.model = model
        self.ops = ops
        self.pool = pool
        self.attention = attention
        self.page_size = page_size
        self.context_length = context_length
        self.device = device
        self.graph: GraphRunner | None = None
        self.last_tokens = torch.zeros(max_requests, dtype=torch.int64, device=device)
        """[slots] the token each slot's last step sampled, which stands in for -1 in the next batch."""

    def prepare(self, step: StepBatch) -> ForwardBatch:
        """The step's tensors; page copies are done here, before anything reads the pages."""
        if step.page_copies is not None and len(step.page_copies):
            pairs = torch.from_numpy(step.page_copies.astype(np.int64)).to(self.device)
            self.pool.copy_pages(pairs, self.page_size)
        return make_forward_batch(
            step,
            attention=self.attention,
            page_size=self.page_size,
            last_tokens=self.last_tokens,
            device=self.device,
        )

    def hidden(self, batch: ForwardBatch) -> torch.Tensor:
        """Hidden states [T, hidden], by replay where a graph covers the batch."""
        if self.graph is not None and self.graph.covers(batch):
            return self.graph.run(batch)
        batch.attention_plan = self.attention.plan(batch)
        return self.model(batch)

    def rows(self, hidden: torch.Tensor, index: NDArray[np.int64]) -> torch.Tensor:
        """Chosen rows of the hidden states; no copy when all are chosen in order."""
        if len(index) == hidden.shape[0] and (len(index) < 2 or bool((np.diff(index) == 1).all())):
            return hidden
        return hidden.index_select(0, torch.from_numpy(index).to(self.device))

    @torch.inference_mode()
    def forward_logits(self, step: StepBatch) -> torch.Tensor:
        """fp32 logits [T, vocab] of every token of a step: for tests and measurements, serving computes only rows it needs."""
        return self.model.logits(self.hidden(self.prepare(step)))
