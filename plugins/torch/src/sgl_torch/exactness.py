"""Batch invariance in fp32: what makes a row's result independent of the other rows, set up and checked on this machine."""

from __future__ import annotations

import os

import torch
import torch.nn.functional as F

from .ops import LinearOp

KEY_BLOCK = 512
"""Keys that torch's CPU attention kernel takes at a time (kvSplitSize in FlashAttentionKernel.cpp)."""

LANES = 16
"""fp32 lanes of the widest vector (AVX-512)."""


def ask_for_strict_matmul() -> None:
    """Have MKL compute each element of a product the same way for every shape and thread count.

    MKL reads MKL_CBWR at its first call of the process ("Conditional Numerical Reproducibility" in its manual); a value that
    is already there is the user's and stays. Costs up to half the speed of one-row products, nothing from 16 rows on.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


def rows_are_exact(linear: LinearOp, sizes: tuple[tuple[int, int], ...] = ((576, 192), (100, 37))) -> bool:
    """Whether a row of an fp32 product is the same alone and among others, tried on a few shapes."""
    generator = torch.Generator().manual_seed(0)
    for inputs, outputs in sizes:
        packed = linear.pack([torch.randn(outputs, inputs, generator=generator)], torch.float32)
        x = torch.randn(131, inputs, generator=generator)
        everything = linear(x, packed, None)
        if any(not torch.equal(linear(x[:n].contiguous(), packed, None), everything[:n]) for n in (1, 2, 5, 17, 64)):
            return False
    return True


def exact_tail(head_dim: int) -> int:
    """The longest last key block (a multiple of 16) that gives the same bits as when it is padded to a full block, or 0."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1, 2, 33, head_dim, generator=generator)
    k, v = (torch.randn(1, 2, KEY_BLOCK, head_dim, generator=generator) for _ in range(2))
    tail = 0
    for length in range(LANES, KEY_BLOCK, LANES):
        mask = torch.zeros(33, KEY_BLOCK)
        mask[:, length - 1 :] = float("-inf")
        for n in (33, 3):
            whole = F.scaled_dot_product_attention(q[:, :, :n], k, v, attn_mask=mask[:n])
            cut = F.scaled_dot_product_attention(
                q[:, :, :n], k[:, :, :length], v[:, :, :length], attn_mask=mask[:n, :length]
            )
            if not torch.equal(whole, cut):
                return tail
        tail = length
    return tail
