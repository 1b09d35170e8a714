"""The prefix cache beyond device memory: host, storage, external caches."""

from __future__ import annotations

from ..declare import Subject, field, from_registry


class HierarchicalCache(Subject):
    """Hierarchical cache."""

    namespace = "memory"
    title = "Hierarchical cache"

    enable_hierarchical_cache = field(
        bool, False, "Extend the prefix cache to host memory and, with a storage backend, beyond."
    )
    hicache_host_memory_mode = field(
        str,
        "cache",
        "What host memory is: a cache level, or only a buffer on the way to storage.",
        choices=("cache", "buffer_only"),
    )
    hicache_ratio = field(float | None, None, "Host cache size as a multiple of the device cache.")
    hicache_size = field(int, 0, "Host cache size in gigabytes per rank; outweighs the ratio. 0 uses the ratio.")
    hicache_write_policy = field(
        str,
        "write_through",
        "When device pages go to the host: at once, when hit again, or on eviction.",
        choices=("write_back", "write_through", "write_through_selective"),
    )
    hicache_io_backend = field(
        str, "kernel", "How pages move between device and host.", choices=("direct", "kernel", "kernel_ascend")
    )
    hicache_mem_layout = field(
        str,
        "page_first",
        "Order of the host cache in memory. Page-first layouts suit storage; layer-first suits overlapped loading.",
        choices=("layer_first", "page_first", "page_first_direct", "page_first_kv_split", "page_head"),
    )
    hicache_storage_backend = field(
        str | None, None, "Where pages go beyond host memory.", choices=from_registry("kv_stores")
    )
    hicache_storage_prefetch_policy = field(
        str,
        "timeout",
        "How long a request waits for pages from storage: not at all, for all of them, or for a time.",
        choices=("best_effort", "wait_complete", "timeout"),
    )
    hicache_storage_backend_extra_config = field(
        str | None, None, "Settings of the storage backend: a JSON object, or @FILE."
    )
    hicache_storage_prefetch_retry_poll_interval = field(
        int, 0, "Steps before a page missing in storage is looked for again; 0 never."
    )
    hicache_storage_prefetch_retry_max_attempts = field(
        int, 4, "How often a page missing in storage is looked for again."
    )
    enable_unified_cache_external_linker = field(
        bool, False, "Let the unified prefix cache find prefixes in an external store."
    )
    unified_cache_external_linker_backend = field(
        str, "mooncake", "The external store to link.", choices=("mooncake", "mori")
    )


class SparseCache(Subject):
    """Hierarchical sparse attention."""

    namespace = "memory"
    title = "Hierarchical sparse attention"

    enable_hisparse = field(
        bool, False, "Keep most of a long context in host memory and fetch what sparse attention selects."
    )
    hisparse_config = field(
        str | None,
        None,
        "Settings of hierarchical sparse attention, as a JSON object (top_k, buffer sizes).",
        aliases=("--hierarchical-sparse-attention-extra-config",),
    )


class ExternalCache(Subject):
    """External caches."""

    namespace = "memory"
    title = "External caches"

    enable_lmcache = field(bool, False, "Use LMCache for prefixes beyond device memory.")
    lmcache_config_file = field(str | None, None, "LMCache's YAML configuration file.")
    enable_flexkv = field(bool, False, "Use FlexKV for prefixes beyond device memory.")
    flexkv_config_file = field(str | None, None, "FlexKV's YAML or JSON configuration file.")
