"""Choosing the entries that a server uses: the user's wish, else the platform's ranking; the specs answer, with reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo

from .errors import RegistryError, Unavailable
from .query import why_not
from .registries import Registries

NO_MODEL = "no_model"
"""The flag of a platform whose worker computes nothing (the null platform): it needs no attention backend and no model class."""


class Selected(TypedDict):
    """One chosen entry, as it stands in a plan. ``because`` says how it came to be chosen."""

    registry: str
    name: str
    target: str
    dist: str
    version: str
    because: str


Selection = dict[str, Selected]
Used = Callable[[Any, ModelInfo], bool]


def _always(config: Any, model: ModelInfo) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Slot:
    """A place that one entry of a registry fills.

    ``field`` is the configuration field that names it. ``needed`` slots must be filled by a platform with a model;
    others may stay empty (a grammar backend that nobody installed serves no constrained request, and no other suffers).
    ``worker`` slots are the model's: a platform without a model has none.
    """

    name: str
    registry: str
    field: str
    needed: bool = False
    worker: bool = True
    used: Used = _always


SLOTS: tuple[Slot, ...] = (
    Slot("attention", "attention", "attention_backend", needed=True),
    Slot("attention_prefill", "attention", "prefill_attention_backend"),
    Slot("attention_decode", "attention", "decode_attention_backend"),
    Slot("mm_attention", "mm_attention", "mm_attention_backend", used=lambda config, model: model.is_multimodal),
    Slot(
        "moe_runners",
        "moe_runners",
        "moe_runner_backend",
        needed=True,
        used=lambda config, model: model.num_experts > 0,
    ),
    Slot("moe_dispatchers", "moe_dispatchers", "moe_a2a_backend", used=lambda config, model: model.num_experts > 0),
    Slot("quantization", "quantization", "quantization"),
    Slot("load_formats", "load_formats", "load_format"),
    Slot("samplers", "samplers", "sampling_backend"),
    Slot("speculative", "speculative", "speculative_algorithm"),
    Slot("lora_backends", "lora_backends", "lora_backend", used=lambda config, model: bool(config.get("enable_lora"))),
    Slot("kv_stores", "kv_stores", "hicache_storage_backend"),
    Slot(
        "kv_transports",
        "kv_transports",
        "disaggregation_transfer_backend",
        used=lambda config, model: config.get("disaggregation_mode") not in (None, "null"),
    ),
    Slot("grammars", "grammars", "grammar_backend", worker=False),
    Slot("tool_parsers", "tool_parsers", "tool_call_parser", worker=False),
    Slot("reasoning_parsers", "reasoning_parsers", "reasoning_parser", worker=False),
    Slot("eviction_policies", "eviction_policies", "radix_eviction_policy", needed=True, worker=False),
    Slot("schedule_policies", "schedule_policies", "schedule_policy", needed=True, worker=False),
)
"""What a server may choose, beside its platform and its model's class."""


def select(
    registries: Registries,
    config: Any,
    facts: Facts,
    model: ModelInfo,
    explicit: Callable[[str], bool] | None = None,
) -> Selection:
    """Fill every slot that this configuration uses.

    ``explicit`` tells whether the user set a field (``ServerArgs.explicit``): what was asked for fails loudly, what a
    rule proposed gives way to the platform's ranking, with a note in ``because``. Without it every value counts as asked for
    in needed slots. Raises the registry's error, or Unavailable with the reason of each entry that was considered.
    """
    platform = registries.platforms.spec(facts.platform)
    selection: Selection = {"platforms": _selected(registries, "platforms", facts.platform, "the machine")}
    has_model = NO_MODEL not in platform.flags
    if has_model:
        selection["models"] = _selected(registries, "models", model.architecture, "the checkpoint's architecture")
    for slot in SLOTS:
        if (slot.worker and not has_model) or not slot.used(config, model):
            continue
        asked = explicit(slot.field) if explicit is not None else slot.needed
        chosen = _fill(registries, slot, config, facts, model, asked, platform.rank.get(slot.registry, ()))
        if chosen is not None:
            selection[slot.name] = chosen
    return selection


def _fill(
    registries: Registries, slot: Slot, config: Any, facts: Facts, model: ModelInfo, asked: bool, rank: tuple[str, ...]
) -> Selected | None:
    value = config.get(slot.field)
    if value == "none" and "none" not in registries[slot.registry] and not slot.needed:
        return None
    refused: dict[str, str] = {}
    if value not in (None, "", "auto"):
        try:
            reason = _refusal(registries, slot, value, config, facts, model)
            if not reason:
                because = "asked for" if asked else "configuration"
                return _selected(registries, slot.registry, value, because)
            error: RegistryError = Unavailable(
                f"{slot.field} {value!r} cannot serve here: {reason}",
                registry=slot.registry,
                name=value,
                because=reason,
            )
        except RegistryError as failure:
            error = failure
        if asked:
            raise error
        refused[value] = getattr(error, "because", "") or str(error)
    for name in rank:
        if name in refused or name not in registries[slot.registry]:
            continue
        reason = _refusal(registries, slot, name, config, facts, model)
        if not reason:
            passed = "".join(f"; {other}: {why}" for other, why in refused.items())
            return _selected(
                registries, slot.registry, name, f"first that {facts.platform} ranks and that can serve{passed}"
            )
        refused[name] = reason
    if slot.needed:
        raise Unavailable(
            _nothing(registries, slot, facts, rank, refused), registry=slot.registry, name=str(value or "")
        )
    return None


def _refusal(registries: Registries, slot: Slot, name: str, config: Any, facts: Facts, model: ModelInfo) -> str:
    """Why an entry cannot fill a slot, or "". Raises UnknownName, DuplicateNames, LoadFailed, Unavailable."""
    registry = registries[slot.registry]
    spec = registry.spec(name)
    status = registry.status(name)
    if status.state != "ok":
        return status.why
    return why_not(spec, platform=facts.platform, **_needs(slot, config, facts, model))


def _needs(slot: Slot, config: Any, facts: Facts, model: ModelInfo) -> dict[str, Any]:
    """What this model on this machine needs of an entry, as spec fields."""
    arch = {"arch": facts.arch} if facts.arch else {}
    if slot.registry != "attention":
        return arch if slot.registry in ("moe_runners", "quantization") else {}
    phases: Any = {"attention_prefill": "prefill", "attention_decode": "decode"}.get(
        slot.name, frozenset({"prefill", "decode"})
    )
    if slot.name == "attention" and config.get("prefill_attention_backend") and config.get("decode_attention_backend"):
        phases = None
    return {
        **arch,
        "kinds": model.attention_kind,
        "page_sizes": config.get("page_size"),
        "kv_dtypes": config.get("kv_cache_dtype"),
        "sliding_window": True if model.sliding_window else None,
        "phases": phases,
        "flag": "deterministic" if config.get("enable_deterministic_inference") else None,
    }


def _nothing(
    registries: Registries, slot: Slot, facts: Facts, rank: tuple[str, ...], refused: Mapping[str, str]
) -> str:
    registry = registries[slot.registry]
    text = f"nothing installed can serve as {slot.name.replace('_', ' ')} on {facts.platform}"
    reasons = "; ".join(f"{name}: {why}" for name, why in refused.items())
    missing = [name for name in rank if name not in registry]
    if reasons:
        text += f" ({reasons})"
    if missing:
        text += f"; not installed: {', '.join(missing)}"
    others = [name for name in registry.names() if name not in rank and name not in refused]
    if others:
        text += f"; installed but not ranked by the platform, choose with --{slot.field.replace('_', '-')}: {', '.join(others)}"
    elif registry.info.install:
        text += f"; install {registry.info.install}"
    return text


def _selected(registries: Registries, registry: str, name: str, because: str) -> Selected:
    entry = registries[registry]
    spec = entry.spec(name)
    owner = entry.owner(name)
    return Selected(
        registry=registry, name=spec.name, target=spec.target, dist=owner.name, version=owner.version, because=because
    )
