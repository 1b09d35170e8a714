"""RuntimeSettings: what the torch runtime takes from the resolved configuration, in one flat place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sgl_core.plan import Plan

_DEFAULT_MAX_REQUESTS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """Values that are None were left to the runtime. ``threads`` is for torch's own pool; ``platform`` a platform name."""

    platform: str = "cpu"
    device: str = "cpu"
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    page_size: int = 1
    max_total_tokens: int | None = None
    mem_fraction_static: float | None = None
    max_requests: int = _DEFAULT_MAX_REQUESTS
    context_length: int | None = None
    attention_backend: str = "torch_native"
    load_format: str = "auto"
    quantization: str | None = None
    serialized_processors: bool = False
    threads: int = 1
    features: frozenset[str] = frozenset()
    plugin_options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_plan(cls, plan: Plan, *, device: str = "cpu", threads: int = 1) -> RuntimeSettings:
        """Read the plan. Raises ValueError for a parallelism that this runtime does not serve."""
        get = plan.config.get
        for name in ("tp_size", "pp_size"):
            if int(get(name) or 1) != 1:
                raise ValueError(f"{name} {get(name)} is not served by sgl-torch yet; use 1")
        chosen = plan.selection.get("attention")
        return cls(
            platform=plan.facts.platform,
            device=device,
            dtype=get("dtype") or "auto",
            kv_cache_dtype=get("kv_cache_dtype") or "auto",
            page_size=int(get("page_size") or 1),
            max_total_tokens=get("max_total_tokens"),
            mem_fraction_static=get("mem_fraction_static"),
            max_requests=int(get("max_running_requests") or _DEFAULT_MAX_REQUESTS),
            context_length=get("context_length"),
            attention_backend=chosen["name"] if chosen else get("attention_backend") or "torch_native",
            load_format=get("load_format") or "auto",
            quantization=get("quantization"),
            serialized_processors=bool(get("enable_custom_logit_processor")),
            threads=threads,
            features=plan.facts.features,
            plugin_options=dict(plan.options),
        )

    def options_of(self, entry: str) -> dict[str, Any]:
        """The ``--plugin-option`` values of one entry, by their name without the entry's."""
        prefix = f"{entry}."
        return {key[len(prefix) :]: value for key, value in self.plugin_options.items() if key.startswith(prefix)}
