"""One registry: names to specs to objects, each stage reached only when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

from sgl_core.api.specs import ChoiceSpec, Spec

from .errors import DuplicateNames, LoadFailed, RegistryError, Unavailable, UnknownName, did_you_mean, nearest
from .query import Answer, why_not
from .requirements import install_hint, unmet
from .scan import Dist
from .table import RegistryInfo
from .targets import TargetError, import_target, missing_module

S = TypeVar("S", bound=Spec)

_NAMES_SHOWN = 24
"""How many names an error lists."""


@dataclass(slots=True)
class Offer:
    """One distribution's claim to a name. ``value`` is where the spec lies; ``excluded`` says why policy leaves it out.

    ``added`` marks one that a program added, which a plan must carry to the workers.
    """

    name: str
    dist: Dist
    value: str = ""
    excluded: str = ""
    added: bool = False
    spec: Spec | None = None
    error: RegistryError | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """How an entry stands: ``state`` is ok, unavailable, failed, conflict, excluded or incompatible; ``why`` explains all but ok."""

    state: str
    why: str = ""


class Registry(Generic[S]):
    """The entries of one registry. Made by :class:`sgl_core.registry.Registries`; names are case-sensitive."""

    def __init__(
        self, info: RegistryInfo, installed: dict[str, Dist], prefer: dict[str, str], warn: Callable[[str], None]
    ) -> None:
        self.info = info
        self._installed = installed
        self._prefer = prefer
        self._warn = warn
        self._warned: set[str] = set()
        self._offers: dict[str, list[Offer]] = {}
        self._incompatible: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Registry {self.info.name}: {len(self)} entries>"

    def __len__(self) -> int:
        return len(self.names())

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    # -- stage one: names ---------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Entry names, sorted, without aliases and without what policy excludes. Imports nothing."""
        return sorted(name for name in self._offers if self._claims(name))

    def offers(self) -> list[Offer]:
        """Every claim, excluded and conflicting ones too, for lists and diagnosis."""
        return [offer for name in sorted(self._offers) for offer in self._offers[name]]

    def conflicts(self) -> list[DuplicateNames]:
        """An error for each name that several distributions claim and ``prefer`` does not decide."""
        return [self._conflict(name) for name in self.names() if len(self._contenders(name)) > 1]

    def owner(self, name: str) -> Dist:
        """The distribution that offers a name or alias. Raises as :meth:`spec` does, but imports only for an alias."""
        return self._offer(name).dist

    # -- stage two: specs ---------------------------------------------------------------------------------------

    def canonical(self, name: str) -> str:
        """The entry name for a name, alias or deprecated alias; a deprecated one is warned about once."""
        return self._offer(name).name

    def spec(self, name: str) -> S:
        """The spec of a name or alias. Raises UnknownName, Unavailable (policy), DuplicateNames or LoadFailed."""
        return self._spec_of(self._offer(name))

    def specs(self) -> list[S]:
        """The specs of all entries that have one, by name; those that fail are in :meth:`broken`."""
        found = []
        for name in self.names():
            claims = self._contenders(name)
            if len(claims) == 1:
                try:
                    found.append(self._spec_of(claims[0]))
                except RegistryError:
                    continue
        return found

    def broken(self) -> dict[str, RegistryError]:
        """The entries whose spec cannot be had, with the error."""
        failed: dict[str, RegistryError] = {}
        for name in self.names():
            try:
                self.spec(name)
            except RegistryError as error:
                failed[name] = error
        return failed

    def spellings(self) -> dict[str, str]:
        """Every accepted spelling (names, aliases, deprecated aliases) and the entry name it stands for."""
        table = {name: name for name in self.names()}
        for spec in self.specs():
            for alias in (*spec.aliases, *spec.deprecated_aliases):
                table.setdefault(alias, spec.name)
        return table

    def query(
        self,
        *,
        flag: str | None = None,
        platform: str | None = None,
        predicate: Callable[[S], bool | str] | None = None,
        **needs: Any,
    ) -> Answer[S]:
        """Which entries meet a need (see :func:`sgl_core.registry.query.why_not`), and why each other does not."""
        passed: list[S] = []
        rejected: dict[str, str] = {}
        for name in self.names():
            try:
                spec = self.spec(name)
            except RegistryError as error:
                rejected[name] = str(error)
                continue
            reason = why_not(spec, flag=flag, platform=platform, predicate=predicate, **needs)
            if reason:
                rejected[name] = reason
            else:
                passed.append(spec)
        return Answer(tuple(passed), rejected)

    def having(
        self,
        *,
        flag: str | None = None,
        platform: str | None = None,
        predicate: Callable[[S], bool | str] | None = None,
        **needs: Any,
    ) -> tuple[str, ...]:
        """The names that meet a need; unavailable but legal choices count, for these are the lists that rules ask for."""

        def blind(spec: S) -> bool:
            return not why_not(
                replace(spec, available=True), flag=flag, platform=platform, predicate=predicate, **needs
            )

        return tuple(spec.name for spec in self.specs() if blind(spec))

    # -- stage three: objects -----------------------------------------------------------------------------------

    def load(self, name: str) -> Any:
        """The object a name stands for: the heavy import of its spec's target.

        Raises Unavailable (it says so itself, or a requirement is not installed) and LoadFailed besides what
        :meth:`spec` raises.
        """
        offer = self._offer(name)
        spec = self._spec_of(offer)
        why = self._why_unavailable(spec)
        if why:
            raise Unavailable(
                f"{self._label(offer)} is unavailable: {why}",
                registry=self.info.name,
                name=offer.name,
                dist=offer.dist.name,
                because=why,
            )
        return self._import(offer, spec.target)

    def status(self, name: str) -> Status:
        """How an entry stands, without importing its target."""
        if name in self._incompatible and name not in self._offers:
            return Status("incompatible", self._incompatible[name])
        try:
            spec = self.spec(name)
        except DuplicateNames as error:
            return Status("conflict", str(error))
        except Unavailable as error:
            return Status("excluded", error.because)
        except RegistryError as error:
            return Status("failed", str(error))
        why = self._why_unavailable(spec) if spec.target or not spec.available else ""
        if why:
            return Status("unavailable", why)
        missing = missing_module(spec.target) if spec.target else ""
        return Status("failed", f"there is no module {missing!r} (target {spec.target})") if missing else Status("ok")

    # -- by program ---------------------------------------------------------------------------------------------

    def add(self, spec: Spec, dist: str = "embedded", version: str = "") -> None:
        """Add an entry by program. Raises DuplicateNames when the name is taken, LoadFailed for a spec of another class."""
        offer = Offer(spec.name, Dist(dist, version), value="(added by program)", added=True, spec=spec)
        offer.spec = self._check(offer, spec)
        taken = [held for held in self._contenders(spec.name) if not (spec.available and self._only_announced(held))]
        if taken:
            raise self._conflict(spec.name, [*taken, offer])
        self._offers.setdefault(spec.name, []).append(offer)

    def add_flag(self, name: str, flag: str) -> None:
        """Give an entry a capability word that its own spec does not state."""
        offer = self._offer(name)
        spec = self._spec_of(offer)
        offer.spec = replace(spec, flags=spec.flags | {flag})

    def offer(self, offer: Offer) -> None:
        """Take a scanned claim in."""
        self._offers.setdefault(offer.name, []).append(offer)

    def incompatible(self, name: str, why: str) -> None:
        """Remember an entry of another version of this registry's group."""
        self._incompatible[name] = why

    # -- inside -------------------------------------------------------------------------------------------------

    def _claims(self, name: str) -> list[Offer]:
        claims = [offer for offer in self._offers.get(name, ()) if not offer.excluded]
        wanted = self._prefer.get(name)
        if wanted is not None and len(claims) > 1:
            return [offer for offer in claims if offer.dist.name == wanted] or claims
        return claims

    def _contenders(self, name: str) -> list[Offer]:
        """The claims that count. A choice that is only announced gives way to a package that serves it."""
        claims = self._claims(name)
        if len(claims) < 2:
            return claims
        serving = [offer for offer in claims if not self._only_announced(offer)]
        return serving or claims

    def _only_announced(self, offer: Offer) -> bool:
        try:
            return not self._spec_of(offer).available
        except RegistryError:
            return False

    def _find(self, name: str) -> Offer | None:
        """The offer for a name, or for an alias when no entry has that name; raises DuplicateNames."""
        claims = self._contenders(name)
        if len(claims) > 1:
            raise self._conflict(name, claims)
        if claims:
            return claims[0]
        owners = []
        for spec in self.specs():
            if name in spec.aliases or name in spec.deprecated_aliases:
                owners.append(self._contenders(spec.name)[0])
        if len(owners) > 1:
            raise self._conflict(name, owners)
        return owners[0] if owners else None

    def _offer(self, name: str) -> Offer:
        offer = self._find(name)
        if offer is None:
            raise self._unknown(name)
        deprecated = offer.name != name and offer.spec is not None and name in offer.spec.deprecated_aliases
        if deprecated and name not in self._warned:
            self._warned.add(name)
            self._warn(f"{self.info.name}: {name!r} is deprecated; use {offer.name!r}")
        return offer

    def _spec_of(self, offer: Offer) -> S:
        if offer.error is not None:
            raise offer.error
        if offer.spec is None:
            try:
                spec = self._import(offer, offer.value)
                offer.spec = self._check(offer, spec)
            except RegistryError as error:
                offer.error = error
                raise
        return cast(S, offer.spec)

    def _check(self, offer: Offer, spec: Any) -> Spec:
        """The spec in this registry's class, or LoadFailed. A plain ChoiceSpec serves in every registry."""
        wanted = self.info.spec_class
        if isinstance(spec, ChoiceSpec) and not isinstance(spec, wanted):
            spec = wanted(**{name: getattr(spec, name) for name in Spec.__dataclass_fields__})
        if not isinstance(spec, wanted):
            raise self._failed(offer, "bad_spec", f"{offer.value} is a {type(spec).__name__}, not a {wanted.__name__}")
        if spec.name != offer.name:
            raise self._failed(
                offer, "bad_spec", f"{offer.value} calls itself {spec.name!r}; entry and spec must agree"
            )
        return spec

    def _import(self, offer: Offer, target: str) -> Any:
        if not target:
            raise self._failed(offer, "bad_target", "it is only a legal value: no target implements it")
        try:
            return import_target(target)
        except TargetError as error:
            raise self._failed(offer, error.kind, str(error), entry=target) from (error.__cause__ or error)

    def _why_unavailable(self, spec: Spec) -> str:
        if not spec.available:
            return spec.unavailable_because or "this version does not serve it yet"
        missing = unmet(spec.requires, self._installed)
        if missing:
            what = ", ".join(f"{text} {why}" for text, why in missing)
            return f"{what}; {install_hint(text for text, _ in missing)}"
        return ""

    def _label(self, offer: Offer) -> str:
        return f"{self.info.name} {offer.name!r} of {offer.dist}"

    def _failed(self, offer: Offer, kind: str, what: str, entry: str = "") -> LoadFailed:
        where = f" (target {entry})" if entry else f" (entry {self.info.group}: {offer.name} = {offer.value})"
        entry = entry or offer.value
        return LoadFailed(
            f"{self._label(offer)} cannot be loaded: {what}{where}",
            registry=self.info.name,
            name=offer.name,
            dist=offer.dist.name,
            version=offer.dist.version,
            entry=entry,
            kind=kind,
        )

    def _conflict(self, name: str, claims: list[Offer] | None = None) -> DuplicateNames:
        claims = self._contenders(name) if claims is None else claims
        dists = sorted(str(offer.dist) for offer in claims)
        names = sorted(offer.dist.name for offer in claims)
        return DuplicateNames(
            f"{self.info.name} {name!r} is claimed by {' and '.join(dists)}; uninstall one of them, "
            f"or decide with --prefer {self.info.name}.{name}={names[0]} (or SGL_PREFER)",
            registry=self.info.name,
            name=name,
            dists=names,
        )

    def _unknown(self, name: str) -> RegistryError:
        hidden = [offer for offer in self._offers.get(name, ()) if offer.excluded]
        if hidden:
            because = f"{hidden[0].dist} offers it, but {hidden[0].excluded}"
            return Unavailable(
                f"{self.info.name} {name!r} is excluded: {because}",
                registry=self.info.name,
                name=name,
                dist=hidden[0].dist.name,
                because=because,
            )
        if name in self._incompatible:
            return Unavailable(
                f"{self.info.name} {name!r} is unavailable: {self._incompatible[name]}",
                registry=self.info.name,
                name=name,
                because=self._incompatible[name],
            )
        names = self.names()
        suggestions = nearest(name, self.spellings())
        shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
        known = f"; installed: {shown}" if names else "; no installed package offers any"
        hint = f"; install {self.info.install}" if not names and self.info.install else ""
        return UnknownName(
            f"{self.info.name} has no {name!r}{did_you_mean(suggestions)}{known}{hint}",
            registry=self.info.name,
            name=name,
            suggestions=suggestions,
        )
