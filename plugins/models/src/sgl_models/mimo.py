"""MiMo: a Qwen2 body whose checkpoint also carries multi-token-prediction layers and, in some releases, a vision part."""

from __future__ import annotations

import torch

from .qwen2 import Qwen2ForCausalLM


class MiMoForCausalLM(Qwen2ForCausalLM):
    """Embedding and head can be read and replaced, as a multi-token-prediction draft that shares them needs."""

    def skip_weight(self, name: str) -> bool:
        """Multi-token-prediction layers, the projector and the vision tower have no part in next-token prediction."""
        return "mtp_layers" in name or "projector" in name or name.startswith("model.vision_tower")

    def get_embed_and_head(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The embedding table and the head matrix, each [vocab, hidden]; the same matrix where they are tied."""
        return self.model.embed_tokens.dense(), self.lm_head.dense()

    def set_embed_and_head(self, embed: torch.Tensor, head: torch.Tensor) -> None:
        """Replace both. Raises ValueError for other shapes, and for two different matrices where the model ties them."""
        shape = self.model.embed_tokens.shape
        for what, tensor in (("embedding", embed), ("head", head)):
            if tuple(tensor.shape) != shape:
                raise ValueError(f"the {what} has shape {list(tensor.shape)}, the model's is {list(shape)}")
        if self.lm_head.tied and head is not embed and not torch.equal(embed, head):
            raise ValueError("the model ties embedding and head: give the same matrix twice")
        self.model.embed_tokens.load(embed)
        if not self.lm_head.tied:
            self.lm_head.load(head)
