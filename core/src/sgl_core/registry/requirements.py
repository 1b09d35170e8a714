"""Checking a spec's ``requires`` against what is installed, by metadata only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .scan import Dist, canonical


def unmet(requires: Iterable[str], installed: Mapping[str, Dist]) -> list[tuple[str, str]]:
    """(requirement, why it is not met) for each PEP 508 string that fails; an unreadable string counts as unmet."""
    requires = tuple(requires)
    if not requires:
        return []
    from packaging.requirements import InvalidRequirement, Requirement

    problems: list[tuple[str, str]] = []
    for text in requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            problems.append((text, "is not a valid requirement"))
            continue
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        dist = installed.get(canonical(requirement.name))
        if dist is None:
            problems.append((text, "is not installed"))
        elif dist.version and not requirement.specifier.contains(dist.version, prereleases=True):
            problems.append((text, f"is not met: {dist.version} is installed"))
    return problems


def install_hint(requires: Iterable[str]) -> str:
    """A pip command for requirement strings."""
    return "pip install " + " ".join(f"'{text}'" if set(text) & set(" <>;[*") else text for text in requires)
