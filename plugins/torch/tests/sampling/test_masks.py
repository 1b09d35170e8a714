"""Bit masks against sets."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from sgl_torch.sampling.masks import apply_masks, forbidden


@given(st.data(), st.integers(1, 100))
def test_equal_to_sets(data: st.DataObject, vocab: int) -> None:
    allowed = [data.draw(st.sets(st.integers(0, vocab - 1))) for _ in range(3)]
    masks = np.zeros((3, -(-vocab // 32)), np.int32)
    for row, ids in enumerate(allowed):
        for index in ids:
            masks[row, index // 32] |= np.int32(np.uint32(1 << index % 32).astype(np.int32))
    logits = torch.zeros(5, vocab)
    apply_masks(logits, masks, [4, 0, 2])
    for row, place in enumerate([4, 0, 2]):
        assert set((logits[place] == 0).nonzero().squeeze(1).tolist()) == allowed[row]
    assert bool((logits[[1, 3]] == 0).all())


def test_words_missing_for_a_padded_vocabulary_forbid() -> None:
    assert forbidden(np.full((1, 1), -1, np.int32), 40, torch.device("cpu")).tolist() == [[False] * 32 + [True] * 8]
