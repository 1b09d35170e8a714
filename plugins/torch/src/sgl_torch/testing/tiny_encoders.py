"""Tiny random encoders made by transformers, with the model that made them as the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

SIZES: dict[str, Any] = {
    "vocab_size": 199,
    "hidden_size": 48,
    "intermediate_size": 100,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "max_position_embeddings": 128,
}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "BertModel": ("Bert", {}),
    "RobertaModel": ("Roberta", {"type_vocab_size": 1, "pad_token_id": 1}),
    "XLMRobertaModel": ("XLMRoberta", {"type_vocab_size": 1, "pad_token_id": 1, "hidden_act": "gelu_new"}),
    "BertForSequenceClassification": ("Bert", {"num_labels": 1}),
    "RobertaForSequenceClassification": ("Roberta", {"num_labels": 3, "type_vocab_size": 1, "pad_token_id": 1}),
    "XLMRobertaForSequenceClassification": ("XLMRoberta", {"num_labels": 1, "type_vocab_size": 1, "pad_token_id": 1}),
}
"""Architecture to (transformers family, configuration beside :data:`SIZES`)."""


def make(architecture: str, folder: Path) -> Any:
    """Save the checkpoint of an architecture in ``folder``; returns the transformers model, fp32, in evaluation mode."""
    import transformers

    family, extra = CASES[architecture]
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **extra})
    torch.manual_seed(sum(map(ord, architecture)))
    model = getattr(transformers, architecture)(config).eval().float()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "LayerNorm" in key:
                parameter.add_(0.2 * torch.randn_like(parameter))
            else:
                parameter.normal_(std=0.2 if key.endswith("bias") else 0.15)
    model.save_pretrained(folder)
    return model
