"""The prefix cache and how it gives memory back."""

from __future__ import annotations

from typing import Any

from ..declare import Subject, field, from_registry


class Memory(Subject):
    """Prefix cache."""

    namespace = "memory"
    title = "Prefix cache"

    radix_eviction_policy = field(str, "lru", "", choices=from_registry("eviction_policies"))
    radix_eviction_policy_config = field(dict[str, Any] | None, None, "", parse="json")
    disable_radix_cache = field(bool, False, "", resolvable=True)
    enable_page_major_kv_layout = field(bool, False, "")
    enable_unified_memory = field(bool, False, "")
    enable_session_radix_cache = field(bool, False, "")
    radix_cache_backend = field(str | None, None, "")
