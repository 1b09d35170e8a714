"""How many tokens the KV cache holds: the memory budget, the user's limits, and a sane default on a shared machine."""

from __future__ import annotations

from dataclasses import dataclass

_GIB = 1 << 30
_DEFAULT_SHARE = 0.25
"""Part of the free memory the KV cache takes when nobody asked for more: the machine is not ours alone."""


class OutOfMemory(ValueError):
    """The configuration asks for more memory than there is. The message gives the figures and what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """Bytes. ``available`` is free memory once the weights are loaded, ``fraction`` the share of ``total`` for weights and KV."""

    total: int
    available: int
    weights: int
    fraction: float | None = None

    @property
    def for_kv(self) -> int:
        """What the KV cache may take at most."""
        limit = self.available
        if self.fraction is not None:
            limit = min(limit, int(self.total * self.fraction) - self.weights)
        return max(0, limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class KVSize:
    """The decision. ``note`` says in one line what decided."""

    num_pages: int
    note: str


def kv_size(
    budget: MemoryBudget,
    *,
    bytes_per_token: int,
    page_size: int,
    context_length: int,
    max_requests: int,
    max_total_tokens: int | None = None,
) -> KVSize:
    """Pages of the KV cache.

    ``max_total_tokens`` is taken as it is where it fits. Otherwise the cache is as large as ``max_requests`` full contexts can
    use, at most a quarter of the free memory (but one full context where that fits). Raises OutOfMemory.
    """
    useful = context_length * max_requests
    room = budget.for_kv // bytes_per_token if bytes_per_token else max(useful, max_total_tokens or 0)
    if max_total_tokens is not None:
        if max_total_tokens > room:
            raise OutOfMemory(
                f"max_total_tokens {max_total_tokens} takes {_gib(max_total_tokens * bytes_per_token)}, the budget leaves "
                f"{_gib(budget.for_kv)}: lower it, raise mem_fraction_static, or store the cache in fewer bits (kv_cache_dtype)"
            )
        tokens, why = max_total_tokens, "max_total_tokens"
    else:
        share = int(budget.available * _DEFAULT_SHARE) // max(1, bytes_per_token)
        tokens = min(room, useful, max(share, context_length))
        if tokens == useful:
            why = f"{max_requests} requests of {context_length} tokens"
        elif tokens == room:
            why = "all that the memory budget leaves"
        else:
            why = "a quarter of the free memory; max_total_tokens asks for another size"
    pages = tokens // page_size
    if pages < 1:
        raise OutOfMemory(
            f"no room for a KV cache: weights take {_gib(budget.weights)}, {_gib(budget.available)} of {_gib(budget.total)} are "
            f"free, one page takes {page_size * bytes_per_token} bytes; free memory or raise mem_fraction_static"
        )
    size = _gib(pages * page_size * bytes_per_token)
    return KVSize(num_pages=pages, note=f"KV cache: {pages * page_size} tokens, {size} ({why})")


def _gib(count: int) -> str:
    return f"{count / _GIB:.2f} GiB"
