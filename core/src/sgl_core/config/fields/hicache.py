"""The prefix cache beyond device memory: host, storage, external caches."""

from __future__ import annotations

from ..declare import Subject, field, from_registry


class HierarchicalCache(Subject):
    """Hierarchical cache."""

    namespace = "memory"
    title = "Hierarchical cache"

    enable_hierarchical_cache = field(bool, False, "")
    hicache_host_memory_mode = field(str, "cache", "", choices=("cache", "buffer_only"))
    hicache_ratio = field(float | None, None, "")
    hicache_size = field(int, 0, "")
    hicache_write_policy = field(
        str, "write_through", "", choices=("write_back", "write_through", "write_through_selective")
    )
    hicache_io_backend = field(str, "kernel", "", choices=("direct", "kernel", "kernel_ascend"))
    hicache_mem_layout = field(
        str,
        "page_first",
        "",
        choices=("layer_first", "page_first", "page_first_direct", "page_first_kv_split", "page_head"),
    )
    hicache_storage_backend = field(str | None, None, "", choices=from_registry("kv_stores"))
    hicache_storage_prefetch_policy = field(str, "timeout", "", choices=("best_effort", "wait_complete", "timeout"))
    hicache_storage_backend_extra_config = field(str | None, None, "")
    hicache_storage_prefetch_retry_poll_interval = field(int, 0, "")
    hicache_storage_prefetch_retry_max_attempts = field(int, 4, "")
    enable_unified_cache_external_linker = field(bool, False, "")
    unified_cache_external_linker_backend = field(str, "mooncake", "", choices=("mooncake", "mori"))


class SparseCache(Subject):
    """Hierarchical sparse attention."""

    namespace = "memory"
    title = "Hierarchical sparse attention"

    enable_hisparse = field(bool, False, "")
    hisparse_config = field(str | None, None, "", aliases=("--hierarchical-sparse-attention-extra-config",))


class ExternalCache(Subject):
    """External caches."""

    namespace = "memory"
    title = "External caches"

    enable_lmcache = field(bool, False, "")
    lmcache_config_file = field(str | None, None, "")
    enable_flexkv = field(bool, False, "")
    flexkv_config_file = field(str | None, None, "")
