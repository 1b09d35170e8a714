"""Questions to specs: which can serve a need, and why the others cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

from sgl_core.api.specs import Spec

S = TypeVar("S", bound=Spec)

_WINDOWS = frozenset({"arch"})
_EMPTY_MEANS_ANY = frozenset({"platforms", "page_sizes"})


@dataclass(frozen=True, slots=True)
class Answer(Generic[S]):
    """The specs that meet a need, in registry order, and the reason each other entry does not."""

    specs: tuple[S, ...]
    rejected: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.specs)


def why_not(
    spec: Spec,
    *,
    flag: str | None = None,
    platform: str | None = None,
    predicate: Callable[[Any], bool | str] | None = None,
    **needs: Any,
) -> str:
    """Why a spec does not meet a need, or "" when it does.

    ``needs`` are spec fields. A collection field must contain the wanted value (every one of a set of values); an
    ``arch`` window must include the number (0, unknown, passes only where there is no window); any other field must equal it.
    A field that the spec's class lacks is not met. ``predicate`` answers true or false, or with a reason.
    """
    if not spec.available:
        return spec.unavailable_because or "is not available in this version"
    if flag is not None and flag not in spec.flags:
        return f"is not {flag}"
    if platform is not None and spec.platforms and platform not in spec.platforms:
        return f"runs on {_words(spec.platforms)}, not on {platform}"
    known = {f.name for f in fields(spec)}
    for name, wanted in needs.items():
        if wanted is None:
            continue
        if name not in known:
            return f"does not state {name}"
        reason = _compare(name, getattr(spec, name), wanted)
        if reason:
            return reason
    if predicate is not None:
        verdict = predicate(spec)
        if isinstance(verdict, str):
            return verdict
        if not verdict:
            return "does not meet the condition"
    return ""


def _compare(name: str, has: Any, wanted: Any) -> str:
    if name in _WINDOWS:
        if has is None or has[0] <= wanted <= has[1]:
            return ""
        return f"needs {name} {has[0]} to {has[1]}, not {wanted}"
    if isinstance(has, (frozenset, set, tuple, list, Mapping)):
        if not has and name in _EMPTY_MEANS_ANY:
            return ""
        values = wanted if isinstance(wanted, (frozenset, set, tuple, list)) else (wanted,)
        missing = [value for value in values if value not in has]
        return f"has {name.replace('_', ' ')} {_words(has) or 'none'}, not {_words(missing)}" if missing else ""
    if has == wanted:
        return ""
    if isinstance(has, bool):
        return f"does not support {name.replace('_', ' ')}" if wanted else f"always has {name.replace('_', ' ')}"
    return f"has {name} {has!r}, not {wanted!r}"


def _words(values: Any) -> str:
    return ", ".join(
        str(value) for value in (sorted(values, key=str) if isinstance(values, (set, frozenset)) else values)
    )
