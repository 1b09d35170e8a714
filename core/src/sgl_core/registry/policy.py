"""Who may take part: allow, deny and prefer by distribution, and safe mode (our own distributions only)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from .errors import RegistryError
from .scan import canonical

FIRST_PARTY = frozenset(
    {
        "sgl-core",
        "sgl-torch",
        "sgl-models",
        "sgl-quant",
        "sgl-rules",
        "sgl-grammar",
        "sgl-parsers",
        "sgl-speculative",
        "sgl-lora",
        "sgl-triton",
        "sgl-flashinfer",
        "sgl-disagg",
        "sgl-kvstore",
        "sgl-ops",
        "sgl-cpu",
        "sgl-cuda",
        "sgl-rocm",
        "sgl-xpu",
        "sgl-npu",
        "sgl-mlx",
    }
)
"""Our distributions. A fixed list: a name that merely starts with ``sgl-`` is anybody's."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The operator's decisions. Patterns are distribution names, ``*`` allowed.

    ``allow`` not empty leaves out every third-party distribution that it does not match; ``deny`` always wins.
    ``prefer`` maps ``registry.name`` to the distribution that owns it.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    prefer: Mapping[str, str] = field(default_factory=dict)
    safe_mode: bool = False

    @classmethod
    def of(
        cls,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        prefer: Mapping[str, str] | Iterable[str] = (),
        safe_mode: bool = False,
    ) -> Policy:
        """A policy from user input. Raises RegistryError for a ``prefer`` that is not ``registry.name=dist``."""
        denied = tuple(canonical(name) for name in deny)
        if any(fnmatchcase("sgl-core", pattern) for pattern in denied):
            raise RegistryError("--plugins-deny matches sgl-core, without which nothing runs; take it out of the list")
        return cls(tuple(canonical(name) for name in allow), denied, parse_prefer(prefer), safe_mode)

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Policy:
        """The policy of SGL_PLUGINS_ALLOW, SGL_PLUGINS_DENY, SGL_PREFER (comma separated) and SGL_SAFE_MODE."""

        def words(name: str) -> list[str]:
            return [word for word in env.get(name, "").replace(",", " ").split() if word]

        safe = env.get("SGL_SAFE_MODE", "").lower() not in ("", "0", "false", "no", "off")
        return cls.of(words("SGL_PLUGINS_ALLOW"), words("SGL_PLUGINS_DENY"), words("SGL_PREFER"), safe)

    def excludes(self, dist: str) -> str:
        """Why a distribution takes no part, or ""."""
        if any(fnmatchcase(dist, pattern) for pattern in self.deny):
            return "--plugins-deny excludes it"
        if dist in FIRST_PARTY:
            return ""
        if self.safe_mode:
            return "--safe-mode admits first-party packages only"
        if self.allow and not any(fnmatchcase(dist, pattern) for pattern in self.allow):
            return "--plugins-allow does not list it"
        return ""


def parse_prefer(prefer: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    """``attention.fa3=vendor-dist`` strings (or a mapping) as {"attention.fa3": "vendor-dist"}."""
    if isinstance(prefer, Mapping):
        pairs = list(prefer.items())
    else:
        pairs = []
        for text in prefer:
            key, equals, dist = text.partition("=")
            if not equals:
                raise RegistryError(f"--prefer {text!r} is not of the form registry.name=distribution")
            pairs.append((key, dist))
    result: dict[str, str] = {}
    for key, dist in pairs:
        if "." not in key.strip() or not dist.strip():
            raise RegistryError(f"--prefer {key}={dist} is not of the form registry.name=distribution")
        result[key.strip()] = canonical(dist.strip())
    return result
