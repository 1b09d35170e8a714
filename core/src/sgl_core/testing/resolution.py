"""Replays recorded configuration resolutions and counts agreement: per case, per field, per platform.

    python -m sgl_core.testing.resolution FILE.jsonl.gz [--field F] [--arch A] [--platform P] [--case C] [--show N]

A record names a machine (``platform_facts``), a model (``hf_config``), what the user asked (``args``) and what came out
(``resolved`` or ``error``). Differences on purpose stand in a JSON file (``--on-purpose``) and are counted apart.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.config.errors import ConfigError, RuleError
from sgl_core.config.fields import fields
from sgl_core.config.model_info import model_info_from_config
from sgl_core.config.resolver import resolve
from sgl_core.config.server_args import ServerArgs

UNSET = "<unchanged>"
NOT_COMPARED = frozenset({"random_seed", "nccl_port", "dist_init_addr"})
"""Fields that a resolution may fill at random and that are not recorded."""

RESOLVABLE = "resolvable"
REST = "rest"
_PACKAGES = {
    "is_flashinfer_available": "flashinfer",
    "is_triton_kernels_available": "triton_kernels",
    "is_tokenspeed_mla_available": "tokenspeed_mla",
}
_FEATURES = {
    "cpu_has_amx_support": "amx",
    "xpu_has_xmx_support": "xmx",
    "is_mnnvl_fabric_device": "mnnvl_fabric",
    "use_mlx": "mlx",
    "aiter_preshuffle_paged_mqa": "aiter_preshuffle_paged_mqa",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One field on which a replay and its record disagree. ``field`` is ``error`` for refusals."""

    case: str
    field: str
    ours: Any
    recorded: Any


@dataclass(slots=True)
class Tally:
    """Counts over the replayed cases."""

    cases: int = 0
    agreed: Counter[str] = field(default_factory=Counter)
    on_purpose: int = 0
    by_field: Counter[str] = field(default_factory=Counter)
    by_platform: dict[str, Counter[str]] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    def share(self, group: str) -> float:
        """Agreement in percent for ``resolvable`` or ``rest``; differences on purpose count as agreement."""
        return 100.0 * self.agreed[group] / max(1, self.cases)


@dataclass(frozen=True, slots=True)
class Purpose:
    """A difference that is meant: where it applies (empty = everywhere) and why."""

    fields: tuple[str, ...]
    reason: str
    case: str = ""
    architecture: str = ""
    platform: str = ""
    rule: str = ""
    """The rule of ours that refuses where the recording does not."""

    def covers(self, difference: Difference, record: Mapping[str, Any]) -> bool:
        """Whether the difference is this one."""
        return (
            difference.field in self.fields
            and self.case in difference.case
            and self.architecture in ("", record["arch"])
            and self.platform in ("", record["platform"])
            and (not self.rule or f"rule {self.rule} " in str(difference.ours))
        )


def records(path: str | Path) -> Iterator[dict[str, Any]]:
    """The records of a file, gzipped or not."""
    opened = gzip.open(path, "rt") if str(path).endswith(".gz") else open(path)  # noqa: SIM115
    with opened as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def facts_of(record: Mapping[str, Any]) -> Facts:
    """The machine of a record as Facts. Raises ValueError for a machine of no known kind."""
    probed = record["platform_facts"]
    env = {**probed.get("env", {}), **(record.get("env_in") or {})}
    platform = next(
        (name for name in ("cuda", "npu", "xpu", "cpu", "musa", "hpu") if probed.get(f"is_{name}")),
        "rocm" if probed.get("is_hip") else "mps" if probed.get("is_mps") else None,
    )
    if platform is None:
        raise ValueError(f"{record['id']}: platform_facts name no device")
    libraries = {package: "0" for key, package in _PACKAGES.items() if probed.get(key)}
    features = {word for key, word in _FEATURES.items() if probed.get(key)}
    if platform == "cuda":
        libraries |= {"deep_gemm": "0", "deep_ep": "0"}
        features.add("flashinfer_mla_dcp")
    if platform == "rocm":
        libraries["aiter"] = "0"
    if not probed.get("is_host_cpu_x86", True):
        features.add("arm64")
    return Facts(
        platform=platform,
        name=record["platform"],
        device=probed["device"],
        device_name=probed.get("device_name") or "",
        arch=probed.get("device_sm") or 0,
        device_count=probed.get("device_count") or 0,
        device_memory_mib=probed.get("device_memory_mib"),
        device_core_count=probed.get("device_core_count") or 0,
        host_memory_mib=262144.0,
        cuda_version=_dotted(probed.get("cuda_version")),
        hip_version=_dotted(probed.get("hip_version")),
        driver_version=_dotted(probed.get("nvidia_driver_version")),
        libraries=libraries,
        features=frozenset(features),
        env=env,
    )


def _dotted(version: Iterable[int] | None) -> str:
    parts = list(version or ())
    return ".".join(map(str, parts)) if any(parts) else ""


def model_of(record: Mapping[str, Any]) -> ModelInfo:
    """The model of a record."""
    return model_info_from_config(
        record["hf_config"], f"MODELS/{record['model']}", draft_hf_config=record.get("draft_hf_config")
    )


def replay(record: Mapping[str, Any], registries: Any, rules: Any = None) -> list[Difference]:
    """Resolve a record's configuration again; what differs from the recording.

    Raises RuleError where a rule is broken; a refusal is compared by its kind.
    """
    asked = {**record["args"], "model_path": f"MODELS/{record['model']}", "random_seed": 1}
    known = fields()
    args = ServerArgs.from_sources(cli={name: value for name, value in asked.items() if name in known})
    recorded = record["error"]["type"] if record["error"] else None
    try:
        resolution = resolve(args, facts_of(record), model_of(record), registries, rules)
    except ConfigError as refusal:
        ours = refusal.kind
        return [] if ours == recorded else [Difference(record["id"], "error", f"{ours}: {refusal}", recorded)]
    if recorded is not None:
        return [Difference(record["id"], "error", None, f"{recorded}: {record['error']['message'][:200]}")]
    changed = resolution.changed()
    return [
        Difference(record["id"], name, changed.get(name, UNSET), record["resolved"].get(name, UNSET))
        for name in sorted(changed.keys() | record["resolved"].keys())
        if name not in NOT_COMPARED and changed.get(name, UNSET) != record["resolved"].get(name, UNSET)
    ]


def tally(cases: Iterable[Mapping[str, Any]], registries: Any, purposes: Iterable[Purpose] = ()) -> Tally:
    """Replay cases and count. A broken rule counts as a difference on ``error``."""
    result = Tally()
    meant = tuple(purposes)
    resolvable = frozenset(name for name, declared in fields().items() if declared.resolvable) | {"error"}
    for record in cases:
        try:
            found = replay(record, registries)
        except RuleError as broken:
            found = [Difference(record["id"], "error", f"broken: {broken}", record["error"])]
        left = [one for one in found if not any(purpose.covers(one, record) for purpose in meant)]
        result.on_purpose += bool(found) and not left
        result.cases += 1
        platform = result.by_platform.setdefault(record["platform"], Counter())
        platform["cases"] += 1
        wrong = {RESOLVABLE if one.field in resolvable else REST for one in left}
        if any(one.field == "error" for one in left):
            wrong = {RESOLVABLE, REST}
        for group in (RESOLVABLE, REST):
            if group not in wrong:
                result.agreed[group] += 1
                platform[group] += 1
        result.by_field.update(one.field for one in left)
        result.differences += left
    return result


def read_purposes(path: str | Path) -> list[Purpose]:
    """The differences on purpose of a JSON file: a list of objects with the fields of :class:`Purpose`."""
    entries = json.loads(Path(path).read_text())
    return [Purpose(**{**entry, "fields": tuple(entry["fields"])}) for entry in entries]


def report(result: Tally, show: int, only_field: str = "") -> str:
    """The counts as text, and the first ``show`` differences (of one field, where named)."""
    lines = [
        f"{result.cases} cases",
        f"  resolvable fields and refusals: {result.agreed[RESOLVABLE]} agree ({result.share(RESOLVABLE):.2f} %)",
        f"  every other field:              {result.agreed[REST]} agree ({result.share(REST):.2f} %)",
        f"  agree but for differences on purpose: {result.on_purpose}",
        "per platform (cases, resolvable, rest)",
    ]
    for name, counts in sorted(result.by_platform.items()):
        lines.append(f"  {name:14} {counts['cases']:5} {counts[RESOLVABLE]:5} {counts[REST]:5}")
    if result.by_field:
        lines.append("fields that differ (cases)")
        lines += [f"  {name:42} {count}" for name, count in result.by_field.most_common()]
    wanted = [one for one in result.differences if only_field in ("", one.field)]
    for one in wanted[:show]:
        lines += [
            f"{one.case}: {one.field}",
            f"    ours:     {_short(one.ours)}",
            f"    recorded: {_short(one.recorded)}",
        ]
    return "\n".join(lines)


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 600 else text[:600] + " ..."


def main(argv: list[str] | None = None) -> int:
    """The command. The exit status is 1 where agreement is below the goals (98 % and 95 %)."""
    parser = argparse.ArgumentParser(prog="python -m sgl_core.testing.resolution", description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--field", default="", help="show differences of this field only")
    parser.add_argument("--arch", default="", help="only this architecture")
    parser.add_argument("--platform", default="", help="only this platform")
    parser.add_argument("--case", default="", help="only ids that contain this text")
    parser.add_argument("--show", type=int, default=10, help="how many differences to print")
    parser.add_argument("--on-purpose", default="", help="JSON file of differences on purpose")
    options = parser.parse_args(argv)
    from sgl_core.registry import Registries

    chosen = (
        record
        for record in records(options.file)
        if options.arch in ("", record["arch"])
        and options.platform in ("", record["platform"])
        and options.case in record["id"]
    )
    purposes = read_purposes(options.on_purpose) if options.on_purpose else []
    result = tally(chosen, Registries.discover(), purposes)
    print(report(result, options.show, options.field))
    return 0 if result.share(RESOLVABLE) >= 98 and result.share(REST) >= 95 else 1


if __name__ == "__main__":
    sys.exit(main())
