"""RoBERTa (Liu et al. 2019) and XLM-RoBERTa: BERT's encoder whose positions begin after the padding id, and another head."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn

from sgl_core.api import ModelInfo
from sgl_torch.context import LayerContext
from sgl_torch.forward_batch import ForwardBatch
from sgl_torch.layers import Linear
from sgl_torch.ops import WeightPart
from sgl_torch.weights import LoadReport, load_weights

from .bert import BUFFERS, BertModel, class_count, first_tokens, renamed
from .encoder import Encoder
from .encoder_activation import activation


def first_position(info: ModelInfo) -> int:
    """Position 0 of a text stands one after the padding id in the table."""
    return int(info.hf_config.get("pad_token_id", 1)) + 1


class RobertaModel(BertModel):
    prefix = "roberta."

    @staticmethod
    def first_position_of(info: ModelInfo) -> int:
        return first_position(info)


class ClassificationHead(nn.Module):
    """Dense, tanh, projection to the classes."""

    def __init__(self, info: ModelInfo, context: LayerContext) -> None:
        super().__init__()
        size = info.hidden_size
        self.dense = Linear(size, size, context, prefix="classifier.dense", bias=True)
        self.out_proj = Linear(size, class_count(info), context, prefix="classifier.out_proj", bias=True)
        self.tanh = activation("tanh")

    def forward(self, first: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.out_proj(self.tanh(self.dense(first)))
        return logits


class RobertaForSequenceClassification(nn.Module):
    """``pool`` gives the logits [R, classes] of each text, read at its first token."""

    def __init__(self, info: ModelInfo, context: LayerContext) -> None:
        super().__init__()
        self.roberta = Encoder(info, context, "roberta.", first_position(info))
        self.classifier = ClassificationHead(info, context)

    def forward(self, batch: ForwardBatch) -> torch.Tensor:
        hidden: torch.Tensor = self.roberta(batch)
        return hidden

    def pool(self, hidden: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        """fp32 logits [R, classes]."""
        logits: torch.Tensor = self.classifier(first_tokens(hidden, batch))
        return logits.float()

    def load_weights(
        self, weights: Iterable[tuple[str, WeightPart]], progress: Callable[[int, int], None] | None = None
    ) -> LoadReport:
        """Raises WeightError for anything missing, unexpected or misshapen."""
        return load_weights(self, renamed(weights), skip=_skips, progress=progress)


def _skips(name: str) -> bool:
    """Buffers, and the pooler that some conversions carry beside the head."""
    return name.endswith(BUFFERS) or name.startswith("roberta.pooler.")
