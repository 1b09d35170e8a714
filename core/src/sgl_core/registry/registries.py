"""All registries together: made by one scan, passed as an object, never a module global."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sgl_core.api.specs import (
    AttentionSpec,
    CommandSpec,
    GrammarSpec,
    LoadFormatSpec,
    ModelSourceSpec,
    ModelSpec,
    MoeRunnerSpec,
    OpSpec,
    ParserSpec,
    PlatformSpec,
    QuantizationSpec,
    RuleSetSpec,
    Spec,
)

from .errors import RegistryError, UnknownRegistry, did_you_mean, nearest
from .policy import Policy
from .registry import Offer, Registry
from .scan import Dist, RawEntry, Scan, scan
from .table import TABLE, RegistryInfo


class Registries:
    """Every registry of :data:`sgl_core.registry.table.TABLE`, as attributes (``regs.attention``) and items (``regs["attention"]``).

    ``installed`` maps every installed distribution's name to its Dist, ``dists`` those that offer at least one entry
    which policy admits. ``problems`` are one-line findings of the scan: unreadable metadata, unknown registries,
    entries made for another version of a registry.
    """

    platforms: Registry[PlatformSpec]
    models: Registry[ModelSpec]
    attention: Registry[AttentionSpec]
    moe_runners: Registry[MoeRunnerSpec]
    quantization: Registry[QuantizationSpec]
    ops: Registry[OpSpec]
    rules: Registry[RuleSetSpec]
    load_formats: Registry[LoadFormatSpec]
    grammars: Registry[GrammarSpec]
    tool_parsers: Registry[ParserSpec]
    reasoning_parsers: Registry[ParserSpec]
    model_sources: Registry[ModelSourceSpec]
    commands: Registry[CommandSpec]

    def __init__(
        self,
        found: Scan | None = None,
        policy: Policy | None = None,
        warn: Callable[[str], None] | None = None,
        table: Iterable[RegistryInfo] = TABLE,
    ) -> None:
        found = found or Scan()
        self.policy = policy or Policy()
        self.installed: dict[str, Dist] = found.installed
        self.dists: dict[str, Dist] = {}
        self.problems: list[str] = list(found.problems)
        prefer: dict[str, dict[str, str]] = {}
        for key, dist in self.policy.prefer.items():
            registry, _, name = key.partition(".")
            prefer.setdefault(registry, {})[name] = dist
        self._registries: dict[str, Registry[Any]] = {
            info.name: Registry(info, self.installed, prefer.get(info.name, {}), warn or _log_warning) for info in table
        }
        for entry in found.entries:
            self._take(entry)
        self._check_prefer()

    @classmethod
    def discover(
        cls,
        *,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        prefer: Mapping[str, str] | Iterable[str] = (),
        safe_mode: bool = False,
        path: Sequence[str] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> Registries:
        """Scan installed packages (or those under ``path``) once and build the registries; imports no plugin.

        ``allow``, ``deny`` and ``safe_mode`` choose distributions, ``prefer`` (``attention.fa3=vendor-dist``) decides a
        name that several claim. ``warn`` receives warnings, by default they are logged. Raises RegistryError for
        malformed options and for a preference that nobody offers.
        """
        return cls(scan(path), Policy.of(allow, deny, prefer, safe_mode), warn)

    def __getitem__(self, name: str) -> Registry[Any]:
        try:
            return self._registries[name]
        except KeyError:
            close = did_you_mean(nearest(name, self._registries))
            message = f"there is no registry {name!r}{close} (registries: {', '.join(self._registries)})"
            raise UnknownRegistry(message, registry=name) from None

    def __getattr__(self, name: str) -> Registry[Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except UnknownRegistry as error:
            raise AttributeError(str(error)) from None

    def __iter__(self) -> Iterator[Registry[Any]]:
        return iter(self._registries.values())

    def __contains__(self, name: object) -> bool:
        return name in self._registries

    def names(self) -> list[str]:
        """The registries' names, in table order."""
        return list(self._registries)

    def add(self, registry: str, spec: Spec, dist: str = "embedded", version: str = "") -> None:
        """Add an entry by program; the same as ``registries[registry].add(spec, dist)``."""
        self[registry].add(spec, dist, version)

    def check(self) -> None:
        """Raise DuplicateNames for the first name that several distributions claim: nothing is served until it is decided."""
        for registry in self:
            for conflict in registry.conflicts():
                raise conflict

    def _take(self, entry: RawEntry) -> None:
        name, version = _group(entry.group)
        registry = self._registries.get(name)
        if registry is None or version is None:
            close = did_you_mean(nearest(name, self._registries))
            self.problems.append(f"{entry.dist}: {entry.group} is not a registry of this version{close}")
            return
        excluded = self.policy.excludes(entry.dist.name)
        if version != registry.info.version:
            cure = "upgrade sgl-core" if version > registry.info.version else f"upgrade {entry.dist.name}"
            why = f"{entry.dist} made it for {entry.group}, this version reads {registry.info.group}; {cure}"
            registry.incompatible(entry.name, why)
            self.problems.append(f"{registry.info.name} {entry.name!r} is incompatible: {why}")
            return
        registry.offer(Offer(entry.name, entry.dist, entry.value, excluded))
        if not excluded:
            self.dists[entry.dist.name] = entry.dist

    def _check_prefer(self) -> None:
        for key, dist in self.policy.prefer.items():
            name, _, entry = key.partition(".")
            offers = [offer for offer in self[name].offers() if offer.name == entry and not offer.excluded]
            if not any(offer.dist.name == dist for offer in offers):
                who = ", ".join(sorted(offer.dist.name for offer in offers)) or "nobody"
                raise RegistryError(
                    f"--prefer {key}={dist}: {dist} does not offer {entry!r} in {name} ({who} does)",
                    registry=name,
                    name=entry,
                )


def _group(group: str) -> tuple[str, int | None]:
    """``sgl.attention.v1`` as ("attention", 1); the version is None when the group does not end in one."""
    name, _, tail = group.removeprefix("sgl.").rpartition(".")
    if not name:
        return tail, None
    return name, int(tail[1:]) if tail[:1] == "v" and tail[1:].isdigit() else None


def _log_warning(message: str) -> None:
    import logging  # only a warning needs it, and `sgl --help` must not pay for it

    logging.getLogger("sgl_core.registry").warning(message)
