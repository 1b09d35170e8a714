"""The prefix cache and how it gives memory back."""

from __future__ import annotations

from typing import Any

from ..declare import Subject, field, from_registry


class Memory(Subject):
    """Prefix cache."""

    namespace = "memory"
    title = "Prefix cache"

    radix_eviction_policy = field(
        str,
        "lru",
        "Which cached prefix is forgotten first: least recently used, least often used, and what packages add.",
        choices=from_registry("eviction_policies"),
    )
    radix_eviction_policy_config = field(
        dict[str, Any] | None, None, "Settings of the eviction policy, as a JSON object.", parse="json"
    )
    disable_radix_cache = field(
        bool,
        False,
        "Do not reuse the KV cache of shared prompt prefixes. For measurements, or when prompts share nothing.",
        resolvable=True,
    )
    enable_page_major_kv_layout = field(
        bool, False, "Lay the KV cache out page by page over all layers, so that a page moves in one piece."
    )
    enable_unified_memory = field(
        bool, False, "One memory pool for attention KV and layer states, split as the load asks."
    )
    enable_session_radix_cache = field(
        bool, False, "Count sessions' references to cached prefixes, and forget unreferenced ones first."
    )
    radix_cache_backend = field(str | None, None, "A registered prefix cache instead of the built-in one.")
