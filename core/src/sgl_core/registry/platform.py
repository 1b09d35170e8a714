"""Which platform this machine is: probing the installed ones from the highest order down, never falling to CPU in silence."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from sgl_core.api.facts import Facts
from sgl_core.api.specs import PlatformSpec

from .errors import DuplicateNames, RegistryError, Unavailable, describe
from .registries import Registries
from .scan import Dist
from .targets import TargetError, import_target

_FALLBACK = "cpu"
_ONLY_WHEN_ASKED = "null"
_ENV_PATTERNS = ("SGL_*", "SGLANG_*")
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


class PlatformError(RegistryError):
    """No platform can be chosen, or one that might be meant failed while probing."""


@dataclass(frozen=True, slots=True)
class PlatformChoice:
    """The chosen platform and its facts; ``notes`` say what became of those probed before it."""

    spec: PlatformSpec
    facts: Facts
    dist: Dist
    notes: tuple[str, ...] = ()


def select_platform(
    registries: Registries, device: str | None = None, env: Mapping[str, str] | None = None
) -> PlatformChoice:
    """Probe the installed platforms and choose one.

    Without ``device``, the first from the highest ``probe_order`` down that finds its hardware. A platform that fails to
    load or whose probe raises is fatal then (its device may be present), with its traceback in the message. ``cpu`` is
    tried last and ``null`` only when asked for. With ``device``, only that platform is probed. ``env`` supplies
    ``facts.env``: the platform's own ``env_names`` and ``SGL_*``/``SGLANG_*``, without anything that looks like a secret.
    Raises PlatformError, UnknownName, Unavailable or DuplicateNames.
    """
    if device:
        return _asked(registries, device, env or {})
    notes: list[str] = []
    for name in _order(registries):
        facts = probe(registries, name)
        if facts is not None:
            spec = registries.platforms.spec(name)
            return PlatformChoice(
                spec, _with_env(facts, spec, env or {}), registries.platforms.owner(name), tuple(notes)
            )
        notes.append(f"{name} ({registries.platforms.owner(name)}): found no device")
    if notes:
        raise PlatformError(
            f"no installed platform found a device it can use: {'; '.join(notes)}", registry="platforms"
        )
    hint = registries.platforms.info.install
    raise PlatformError(
        f"no platform package is installed, so nothing can run a model; install {hint}", registry="platforms"
    )


def probe(registries: Registries, name: str) -> Facts | None:
    """Run one platform's probe. Raises PlatformError when it cannot be loaded, cannot work here, or raises."""
    registry = registries.platforms
    advice = (
        f"mend or uninstall it, or choose another platform with --device (installed: {', '.join(registry.names())})"
    )
    try:
        spec = registry.spec(name)
    except (DuplicateNames, Unavailable):
        raise
    except RegistryError as error:
        raise PlatformError(f"{describe(error)}\n{advice}", registry="platforms", name=name) from error
    dist = registry.owner(name)
    status = registry.status(name)
    if status.state != "ok":
        raise PlatformError(
            f"platform {name!r} of {dist} cannot work here: {status.why}\n{advice}", registry="platforms", name=name
        )
    try:
        facts = import_target(spec.probe)()
    except TargetError as error:
        cause = error.__cause__ or error
        raise PlatformError(
            _failure(name, dist, spec.probe, str(error), cause, advice), registry="platforms", name=name
        ) from cause
    except Exception as error:
        what = f"it raised {type(error).__name__}: {error}"
        raise PlatformError(
            _failure(name, dist, spec.probe, what, error, advice), registry="platforms", name=name
        ) from error
    if facts is not None and not isinstance(facts, Facts):
        raise PlatformError(
            f"the probe of platform {name!r} of {dist} ({spec.probe}) returned {type(facts).__name__}, not Facts or None; {advice}",
            registry="platforms",
            name=name,
        )
    return facts


def _order(registries: Registries) -> list[str]:
    """Platform names in probing order; those whose spec is broken come first, so that they are reported, not passed over."""

    def key(name: str) -> tuple[int, int, str]:
        try:
            order = registries.platforms.spec(name).probe_order
        except RegistryError:
            return (0, 0, name)
        return (2 if name == _FALLBACK else 1, -order, name)

    return sorted((name for name in registries.platforms.names() if name != _ONLY_WHEN_ASKED), key=key)


def _asked(registries: Registries, device: str, env: Mapping[str, str]) -> PlatformChoice:
    """The platform of ``--device``: by name or alias, else one that flags itself ``device:<word>`` (ROCm answers to cuda)."""
    word = device.partition(":")[0]
    registry = registries.platforms
    candidates = [registry.canonical(word)] if word in registry else []
    candidates += [name for name in registry.having(flag=f"device:{word}") if name not in candidates]
    if not candidates:
        registry.spec(word)  # raises, with the nearest names and what to install
    tried = []
    for name in candidates:
        facts = probe(registries, name)
        if facts is not None:
            spec = registry.spec(name)
            return PlatformChoice(spec, _with_env(facts, spec, env), registry.owner(name), ())
        tried.append(f"{name} ({registry.owner(name)})")
    raise PlatformError(
        f"--device {device}: {' and '.join(tried)} found no such device here", registry="platforms", name=word
    )


def _with_env(facts: Facts, spec: PlatformSpec, env: Mapping[str, str]) -> Facts:
    patterns = (*_ENV_PATTERNS, *spec.env_names)
    taken = {
        name: value
        for name, value in sorted(env.items())
        if any(fnmatchcase(name, pattern) for pattern in patterns)
        and not any(word in name.upper() for word in _SECRET_WORDS)
    }
    return replace(facts, env={**facts.env, **taken})


def _failure(name: str, dist: Dist, target: str, what: str, cause: BaseException, advice: str) -> str:
    trace = "".join(traceback.format_exception(cause)).rstrip()
    return f"probing platform {name!r} of {dist} ({target}) failed: {what}\n\n{trace}\n\n{advice}"
