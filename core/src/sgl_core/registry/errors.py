"""The errors of the registries: every one carries a ready message that names what was wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable


class RegistryError(Exception):
    """Base of all registry errors. ``registry`` and ``name`` say what was looked up; ``str(error)`` is the message."""

    def __init__(self, message: str, *, registry: str = "", name: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.registry = registry
        self.name = name


class UnknownRegistry(RegistryError, KeyError):
    """There is no registry of that name."""

    def __str__(self) -> str:
        return self.message


class UnknownName(RegistryError, LookupError):
    """No installed distribution offers the name. ``suggestions`` are the nearest names, best first."""

    def __init__(self, message: str, *, registry: str, name: str, suggestions: Iterable[str] = ()) -> None:
        super().__init__(message, registry=registry, name=name)
        self.suggestions = tuple(suggestions)


class Unavailable(RegistryError):
    """The entry exists but cannot serve here: it says so itself, a requirement is missing, or policy excludes it."""

    def __init__(self, message: str, *, registry: str, name: str, dist: str = "", because: str = "") -> None:
        super().__init__(message, registry=registry, name=name)
        self.dist = dist
        self.because = because or message


class LoadFailed(RegistryError):
    """An entry's spec or target could not be imported.

    ``kind`` is ``missing_module`` (the named module does not exist), ``import_failed`` (it exists and raised),
    ``missing_attribute``, ``bad_target`` (not ``module:attribute``) or ``bad_spec``. The cause is ``__cause__``.
    """

    def __init__(
        self, message: str, *, registry: str, name: str, dist: str, version: str, entry: str, kind: str
    ) -> None:
        super().__init__(message, registry=registry, name=name)
        self.dist = dist
        self.version = version
        self.entry = entry
        self.kind = kind


class DuplicateNames(RegistryError):
    """Two distributions offer one name and nobody decided between them. ``dists`` names them all."""

    def __init__(self, message: str, *, registry: str, name: str, dists: Iterable[str]) -> None:
        super().__init__(message, registry=registry, name=name)
        self.dists = tuple(dists)


def describe(error: RegistryError) -> str:
    """The message, followed by the traceback of what a plugin's own code raised, where that is the cause."""
    cause = error.__cause__
    if cause is None or getattr(error, "kind", "") != "import_failed":
        return str(error)
    import traceback

    return f"{error}\n\n{''.join(traceback.format_exception(cause)).rstrip()}"


def nearest(word: str, names: Iterable[str], limit: int = 3) -> list[str]:
    """The names most like a word, best first; case, dashes and underscores count as equal."""
    import difflib  # only errors need it, and `sgl --help` must not pay for it

    plain: dict[str, str] = {}
    for name in sorted(names):
        plain.setdefault(name.lower().replace("_", "-"), name)
    found = difflib.get_close_matches(word.lower().replace("_", "-"), plain, n=limit, cutoff=0.6)
    return [plain[key] for key in found]


def did_you_mean(suggestions: Iterable[str]) -> str:
    """``; did you mean a, b?`` or nothing."""
    words = ", ".join(suggestions)
    return f"; did you mean {words}?" if words else ""
