"""The sampler ``sgl_ops``: sgl-torch's, with the choice itself made by kernels over the batch, without sorting the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

import sgl_ops
from sgl_ops import sampling
from sgl_torch.sampling import Sampler


class KernelSampler(Sampler):
    """Greedy rows get the same tokens as with the sampler ``pytorch``. A drawn token is a function of the row's logits, limits,
    seed and number of generated tokens; the random numbers are other ones."""

    def wants_arg_max(self, slots: NDArray[np.int32]) -> bool:
        """Whether these requests want nothing of their logits but the best token."""
        table = self._slots
        if self._penalties or not table.greedy[slots].all():
            return False
        return not (table.edited[slots].any() or table.wants_logprobs[slots].any())

    def arg_max(self, logits: torch.Tensor, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        """The best token of each row, for requests that want nothing else: what :meth:`sample` would give, in less time."""
        self._slots.generated[slots] += 1
        return _arg_max(logits)

    def _mask(self, logits: torch.Tensor, masks: NDArray[np.int32], rows: Sequence[int]) -> None:
        if not sgl_ops.available() or logits.stride(1) != 1 or logits.dtype != torch.float32:
            super()._mask(logits, masks, rows)
            return
        count, words = masks.shape
        sampling.mask_logits(
            logits.data_ptr(),
            np.ascontiguousarray(masks),
            count=count,
            vocab=logits.shape[1],
            words=words,
            rows=np.asarray(rows, dtype=np.int32),
            ld=logits.stride(0),
        )

    def _rescue(self, logits: torch.Tensor, index: NDArray[np.int64], tokens: torch.Tensor) -> torch.Tensor:
        chosen = logits.numpy()[np.arange(len(index)), tokens.numpy()]
        return super()._rescue(logits, index, tokens) if np.isneginf(chosen).any() else tokens

    def _choose(self, logits: torch.Tensor, index: NDArray[np.int64]) -> torch.Tensor:
        if not sgl_ops.available() or logits.stride(1) != 1 or logits.dtype != torch.float32:
            return super()._choose(logits, index)
        table = self._slots
        if table.greedy[index].all():
            return torch.from_numpy(_arg_max(logits)).to(torch.int64)
        rows, vocab = logits.shape
        out = torch.empty(rows, dtype=torch.int32)
        limits = table.limits(index)
        temperature = np.where(table.greedy[index], np.float32(0), limits.temperature)
        sampling.sample(
            logits.data_ptr(),
            out.data_ptr(),
            rows=rows,
            vocab=vocab,
            ld=logits.stride(0),
            temperature=temperature,
            top_k=np.minimum(limits.top_k, vocab).astype(np.int32),
            top_p=np.ascontiguousarray(limits.top_p),
            min_p=np.ascontiguousarray(limits.min_p),
            seeds=table.seed[index].view(np.int64),
            positions=table.generated[index],
        )
        return out.to(torch.int64)


def _arg_max(logits: torch.Tensor) -> NDArray[np.int32]:
    rows, vocab = logits.shape
    tokens = np.empty(rows, np.int32)
    sampling.argmax(logits.data_ptr(), tokens, rows=rows, vocab=vocab, ld=logits.stride(0))
    return tokens
