"""The plan: everything the parent decided, frozen and as JSON, so that workers follow and never discover or decide again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.worker import PlatformRuntime
from sgl_core.config.config import Config
from sgl_core.registry.codec import spec_from_dict, spec_to_dict
from sgl_core.registry.errors import RegistryError
from sgl_core.registry.options import plugin_options
from sgl_core.registry.platform import PlatformChoice, PlatformError, select_platform
from sgl_core.registry.policy import Policy
from sgl_core.registry.preflight import preflight
from sgl_core.registry.registries import Registries
from sgl_core.registry.scan import scan
from sgl_core.registry.selection import Selected, Selection, select

__all__ = [
    "Plan",
    "PlanDrift",
    "PlatformChoice",
    "PlatformError",
    "Selected",
    "Selection",
    "make_plan",
    "preflight",
    "select",
    "select_platform",
]


class PlanDrift(RegistryError):
    """What is installed here is not what the plan was made with; ``differences`` lists each one."""

    def __init__(self, differences: list[str]) -> None:
        super().__init__(
            "the installed packages are not those the plan was made with; restart the server: " + "; ".join(differences)
        )
        self.differences = differences


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Configuration, machine, model and the chosen entries of one server.

    ``selection`` maps a slot (mostly the registry's name) to the entry chosen for it; ``dists`` maps the name of every
    plugin distribution that took part to its version. ``added`` holds entries added by program, ``prefer`` decided
    conflicts, ``env`` holds environment variables that rules want in the workers, and ``options`` the checked
    ``--plugin-option`` values (``entry.option``), with the defaults of every chosen entry.
    """

    config: Config
    facts: Facts
    model: ModelInfo
    selection: Mapping[str, Selected] = field(default_factory=dict)
    dists: Mapping[str, str] = field(default_factory=dict)
    added: tuple[Mapping[str, Any], ...] = ()
    prefer: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """One JSON object. Contains the configuration's secrets: it goes to our own workers only."""
        return json.dumps(
            {
                "config": json.loads(self.config.to_json()),
                "facts": json.loads(self.facts.to_json()),
                "model": asdict(self.model),
                "selection": dict(self.selection),
                "dists": dict(self.dists),
                "added": list(self.added),
                "prefer": dict(self.prefer),
                "env": dict(self.env),
                "options": dict(self.options),
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The inverse of :meth:`to_json`. Raises ValueError for anything else."""
        data = json.loads(text)
        unknown = set(data) - {f.name for f in fields(cls)}
        if unknown:
            raise ValueError(f"not a plan of this version: unknown {', '.join(sorted(unknown))}")
        return cls(
            config=Config.from_dict(data["config"]),
            facts=Facts.from_dict(data["facts"]),
            model=model_from_dict(data["model"]),
            selection=data["selection"],
            dists=data["dists"],
            added=tuple(data["added"]),
            prefer=data["prefer"],
            env=data["env"],
            options=data["options"],
        )

    def registries(self) -> Registries:
        """The registries as the parent had them, by one scan; call it once per process.

        Distributions that were not there then take no part. Raises PlanDrift when one that took part is gone, has another
        version, or no longer offers a chosen entry with the same target.
        """
        found = scan()
        differences = []
        for name, version in sorted(self.dists.items()):
            now = found.installed.get(name)
            if now is None:
                differences.append(f"{name} {version} is gone")
            elif now.version != version:
                differences.append(f"{name} was {version} and is {now.version}")
        if differences:
            raise PlanDrift(differences)
        found.entries = [entry for entry in found.entries if entry.dist.name in self.dists]
        registries = Registries(found, Policy(prefer=dict(self.prefer)))
        for item in self.added:
            registry = registries[item["registry"]]
            registry.add(spec_from_dict(registry.info.spec_class, item["spec"]), item["dist"], item["version"])
        for slot, chosen in self.selection.items():
            registry = registries[chosen["registry"]]
            if chosen["name"] not in registry.names():
                differences.append(f"{slot} {chosen['name']!r} of {chosen['dist']} is no longer offered")
            elif registry.spec(chosen["name"]).target != chosen["target"]:
                differences.append(f"{slot} {chosen['name']!r} of {chosen['dist']} has another target")
        if differences:
            raise PlanDrift(differences)
        return registries

    def runtime(self, registries: Registries | None = None) -> PlatformRuntime:
        """The runtime of the plan's platform: the heavy import. ``registries`` saves a second scan."""
        registries = registries or self.registries()
        runtime: PlatformRuntime = registries.platforms.load(self.facts.platform)(self)
        return runtime


def make_plan(
    *,
    registries: Registries,
    config: Config,
    facts: Facts,
    model: ModelInfo,
    explicit: Callable[[str], bool] | None = None,
    env: Mapping[str, str] | None = None,
) -> Plan:
    """Check for undecided conflicts, select, check the plugins' options, and freeze.

    ``explicit`` is ``ServerArgs.explicit``; see :func:`sgl_core.registry.selection.select`. Raises RegistryError.
    """
    registries.check()
    selection = select(registries, config, facts, model, explicit)
    added = tuple(
        {
            "registry": registry.info.name,
            "spec": spec_to_dict(offer.spec),
            "dist": offer.dist.name,
            "version": offer.dist.version,
        }
        for registry in registries
        for offer in registry.offers()
        if offer.added and offer.spec is not None
    )
    return Plan(
        config=config,
        facts=facts,
        model=model,
        selection=selection,
        dists={name: dist.version for name, dist in sorted(registries.dists.items())},
        added=added,
        prefer=dict(registries.policy.prefer),
        env=dict(env or {}),
        options=plugin_options(registries, config.get("plugin_option"), selection),
    )


def model_from_dict(data: Mapping[str, Any]) -> ModelInfo:
    """A ModelInfo from its JSON object. Raises ValueError naming keys that it does not have."""
    known = {f.name for f in fields(ModelInfo)}
    unknown = sorted(set(data) - known)
    if unknown:
        raise ValueError(f"a model's information has no field {', '.join(unknown)}")
    return ModelInfo(**{**data, "layer_types": tuple(data.get("layer_types", ()))})
