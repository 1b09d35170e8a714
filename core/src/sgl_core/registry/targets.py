"""Importing ``module:attribute`` strings so that each way of failing has its own name."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
from typing import Any


class TargetError(Exception):
    """A string target could not be resolved; ``kind`` as in :class:`sgl_core.registry.errors.LoadFailed`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def import_target(target: str) -> Any:
    """The object a ``module:attribute`` string names (dotted attributes allowed).

    Raises TargetError. A module that does not exist is told apart from a module that exists and whose own import
    raised; the latter keeps the original exception as ``__cause__``.
    """
    module_name, colon, attribute = target.partition(":")
    module_name, attribute = module_name.strip(), attribute.strip()
    if not module_name or not colon or not attribute:
        raise TargetError("bad_target", f"{target!r} is not of the form module:attribute")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name == missing or module_name.startswith(missing + "."):
            raise TargetError("missing_module", f"there is no module {missing!r}") from error
        raise TargetError(
            "import_failed", f"importing {module_name} failed: it needs the module {missing!r}"
        ) from error
    except (Exception, SystemExit) as error:
        raise TargetError("import_failed", f"importing {module_name} raised {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise TargetError("missing_attribute", f"module {module_name} has no attribute {attribute!r}") from error
    return found


def missing_module(target: str) -> str:
    """The first module on a target's way that does not exist, or "". Imports nothing, not even parent packages."""
    parts = target.partition(":")[0].strip().split(".")
    try:
        spec = importlib.util.find_spec(parts[0])
    except (ImportError, ValueError):
        spec = None
    for depth in range(1, len(parts) + 1):
        if spec is None:
            return ".".join(parts[:depth])
        if depth == len(parts):
            break
        if spec.submodule_search_locations is None:
            return ".".join(parts[: depth + 1])
        name = ".".join(parts[: depth + 1])
        spec = importlib.machinery.PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return ""
