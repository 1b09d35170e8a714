"""Facts: what the machine is, as plain data that goes to JSON and back, so that configuration resolves anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One machine as configuration rules see it.

    Memory sizes are in MiB. ``arch`` is the device capability as major*10+minor (90 = SM90, 94 = gfx942 as the
    runtime reports it), 0 where the platform has none. ``libraries`` maps importable packages that matter to a choice
    to their version (absent = not installed). ``features`` holds words such as ``amx``, ``avx2``, ``xmx``,
    ``mnnvl_fabric``. ``env`` holds the environment switches that rules read; nothing else reads the environment.
    """

    platform: str
    name: str = ""
    device: str = ""
    """The reference system's device word: cuda (ROCm too), cpu, xpu, npu, mps, musa, hpu."""
    device_name: str = ""
    arch: int = 0
    gfx: str = ""
    device_count: int = 0
    device_memory_mib: float | None = None
    device_core_count: int = 0
    host_memory_mib: float | None = None
    cpu_count: int = 0
    cuda_version: str = ""
    hip_version: str = ""
    driver_version: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    """Words in use: ``amx``, ``avx2``, ``arm64``, ``xmx``, ``mnnvl_fabric``, ``mlx`` (the MLX runtime is switched on),
    ``aiter_preshuffle_paged_mqa`` (its paged-MQA kernel is usable), ``flashinfer_mla_dcp`` (its MLA decode kernel takes
    ``enable_dcp``), ``imex_channel``, ``infiniband``."""
    env: Mapping[str, str] = field(default_factory=dict)

    def has(self, feature: str) -> bool:
        """Whether the machine has a feature word."""
        return feature in self.features

    def to_json(self) -> str:
        """The facts as one JSON object with sorted keys."""
        data = asdict(self)
        data["features"] = sorted(self.features)
        return json.dumps(data, indent=2, sort_keys=True)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Facts:
        """Facts from a JSON object. Raises ValueError naming keys that Facts does not have."""
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise ValueError(f"facts have no field {', '.join(unknown)}; known fields: {', '.join(sorted(known))}")
        values = dict(data)
        if "features" in values:
            values["features"] = frozenset(values["features"])
        return cls(**values)
