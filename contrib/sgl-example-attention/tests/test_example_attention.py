"""The backend against the reference backend, and the conformance checks on the installed package."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sgl_example_attention.backend import make

from sgl_core.testing.kit import check_dist
from sgl_torch.attention import AttentionContext
from sgl_torch.attention.torch_native import make as reference
from sgl_torch.forward_batch import ForwardBatch
from sgl_torch.kv_pool import KVPool
from sgl_torch.layers import Attention

HEADS, KV_HEADS, HEAD_DIM, PAGE = 4, 2, 16, 4
CONTEXTS, NEW = (9, 0, 33), (1, 7, 2)


def run(factory: object, block: int, window: int | None, soft_cap: float | None) -> torch.Tensor:
    """One layer of one step over three rows whose contexts are already in the pool."""
    torch.manual_seed(0)
    device = torch.device("cpu")
    pool = KVPool(
        num_layers=1, num_slots=160, num_kv_heads=KV_HEADS, head_dim=HEAD_DIM, dtype=torch.float32, device=device
    )
    pool.k[0].normal_()
    pool.v[0].normal_()
    pages = np.arange(1, 37).reshape(3, 12)
    total = sum(NEW)
    ends = [context + new for context, new in zip(CONTEXTS, NEW, strict=True)]
    slots = [
        pages[row][position // PAGE] * PAGE + position % PAGE
        for row in range(3)
        for position in range(CONTEXTS[row], ends[row])
    ]
    context = AttentionContext(
        pool=pool, page_size=PAGE, dtype=torch.float32, device=device, context_length=64, options={"block": block}
    )
    backend = factory(context)  # type: ignore[operator]
    batch = ForwardBatch(
        input_ids=torch.zeros(total, dtype=torch.int64),
        positions=torch.cat([torch.arange(context, end) for context, end in zip(CONTEXTS, ends, strict=True)]),
        write_slots=torch.tensor(slots),
        query_lens=np.array(NEW),
        context_lens=np.array(CONTEXTS),
        page_table=pages,
        last_index=np.cumsum(NEW) - 1,
        page_size=PAGE,
        decode=False,
        attention=backend,
    )
    batch.attention_plan = backend.plan(batch)
    layer = Attention(0, HEADS, KV_HEADS, HEAD_DIM, SimpleNamespace(device=device), window=window, soft_cap=soft_cap)
    q, k, v = (torch.randn(total, heads, HEAD_DIM) for heads in (HEADS, KV_HEADS, KV_HEADS))
    return backend.forward(q, k, v, layer, batch).reshape(total, HEADS, HEAD_DIM)


@pytest.mark.parametrize("block", [1, 5, 128])
@pytest.mark.parametrize(("window", "soft_cap"), [(None, None), (6, None), (None, 5.0)])
def test_agrees_with_the_reference(block: int, window: int | None, soft_cap: float | None) -> None:
    torch.testing.assert_close(
        run(make, block, window, soft_cap), run(reference, block, window, soft_cap), atol=1e-5, rtol=1e-5
    )


def test_a_wrong_option_is_refused() -> None:
    with pytest.raises(ValueError, match="block must be at least 1"):
        run(make, 0, None, None)


def test_the_package_conforms() -> None:
    assert check_dist("sgl-example-attention") == []
