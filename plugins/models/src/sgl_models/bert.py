"""BERT: sentence embeddings, and classification of a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import nn

from sgl_core.api import ModelInfo
from sgl_torch.context import LayerContext
from sgl_torch.forward_batch import ForwardBatch
from sgl_torch.layers import Linear
from sgl_torch.ops import WeightPart
from sgl_torch.weights import LoadReport, load_weights

from .encoder import Encoder
from .encoder_activation import activation
from .pooling import pooling_of

_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def renamed(weights: Iterable[tuple[str, WeightPart]], prefix: str = "") -> Iterator[tuple[str, WeightPart]]:
    """Tensors without ``prefix``, which checkpoints of a larger model put before the encoder's names, and with today's names."""
    for name, part in weights:
        for old, new in _OLD_NAMES.items():
            name = name.replace(old, new)
        yield name.removeprefix(prefix), part


class BertModel(Encoder):
    """Embeds: ``pool`` makes the vectors that the publisher's pipeline makes."""

    prefix = "bert."
    unused = ("pooler.", "cls.", "lm_head.", "classifier.")
    """Heads that a checkpoint may carry and embeddings have no use for."""

    def __init__(self, info: ModelInfo, context: LayerContext) -> None:
        super().__init__(info, context, "", self.first_position_of(info))
        self.pooling = pooling_of(info.path)

    @staticmethod
    def first_position_of(info: ModelInfo) -> int:
        """The row of the position table where a text begins."""
        return 0

    def pool(self, hidden: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        """fp32 vectors [R, size]."""
        return self.pooling(hidden, batch.query_lens.tolist())

    def load_weights(
        self, weights: Iterable[tuple[str, WeightPart]], progress: Callable[[int, int], None] | None = None
    ) -> LoadReport:
        """Raises WeightError for anything missing, unexpected or misshapen."""
        return load_weights(self, renamed(weights, self.prefix), skip=self._skips, progress=progress)

    def _skips(self, name: str) -> bool:
        return name.startswith(self.unused) or name.endswith(BUFFERS)


BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
"""Constants that older checkpoints store."""


class PooledEncoder(Encoder):
    """The encoder with the layer that reads its first token."""

    def __init__(self, info: ModelInfo, context: LayerContext) -> None:
        super().__init__(info, context, "bert.")
        size = info.hidden_size
        self.pooler = nn.ModuleDict({"dense": Linear(size, size, context, prefix="bert.pooler.dense", bias=True)})
        self.tanh = activation("tanh")

    def first(self, hidden: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        """[R, hidden]."""
        return self.tanh(self.pooler["dense"](first_tokens(hidden, batch)))


class BertForSequenceClassification(nn.Module):
    """``pool`` gives the logits [R, classes] of each text, read at its first token."""

    def __init__(self, info: ModelInfo, context: LayerContext) -> None:
        super().__init__()
        self.bert = PooledEncoder(info, context)
        self.classifier = Linear(info.hidden_size, class_count(info), context, prefix="classifier", bias=True)

    def forward(self, batch: ForwardBatch) -> torch.Tensor:
        hidden: torch.Tensor = self.bert(batch)
        return hidden

    def pool(self, hidden: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        """fp32 logits [R, classes]."""
        logits: torch.Tensor = self.classifier(self.bert.first(hidden, batch))
        return logits.float()

    def load_weights(
        self, weights: Iterable[tuple[str, WeightPart]], progress: Callable[[int, int], None] | None = None
    ) -> LoadReport:
        """Raises WeightError for anything missing, unexpected or misshapen."""
        return load_weights(self, renamed(weights), skip=lambda name: name.endswith(BUFFERS), progress=progress)


def class_count(info: ModelInfo) -> int:
    """How many classes the head tells apart."""
    labels = info.hf_config.get("id2label")
    return int(info.hf_config.get("num_labels") or (len(labels) if labels else 2))


def first_tokens(hidden: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
    """[R, hidden] of each row's first token."""
    first = torch.from_numpy(batch.last_index + 1 - batch.query_lens)
    return hidden.index_select(0, first.to(hidden.device))
