"""Facts of machines that are not here: packaged profiles by name, and files written by `sgl facts`.

A name may carry a number of devices: ``h100`` is one, ``h100x8`` eight. Platforms ship more profiles (``PlatformSpec.profiles``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sgl_core.api.facts import Facts

from .errors import did_you_mean

PACKAGED = Path(__file__).parent / "profiles"


class ProfileError(ValueError):
    """There is no such profile, or its file does not hold facts."""


def profile_files(registries: Any = None) -> dict[str, Path]:
    """Profile names and their files: the platforms' own first, then those that come with the core."""
    files = {file.stem: file for file in sorted(PACKAGED.glob("*.json"))}
    for folder in platform_folders(registries):
        files.update({file.stem: file for file in sorted(folder.glob("*.json"))})
    return dict(sorted(files.items()))


def platform_folders(registries: Any) -> list[Path]:
    """The profile folders that installed platforms name as ``package:folder``."""
    folders = []
    for spec in registries.platforms.specs() if registries is not None else ():
        package, _, folder = spec.profiles.partition(":")
        found = find_spec(package) if package else None
        for place in (found.submodule_search_locations or ()) if found is not None else ():
            folders.append(Path(place) / folder)
    return folders


def load_facts(name: str, registries: Any = None) -> Facts:
    """The facts of a profile (``b200``, ``h100x8``) or of a JSON file. Raises :class:`ProfileError`."""
    if name.endswith(".json") or Path(name).is_file():
        return facts_from_file(Path(name))
    files = profile_files(registries)
    if name in files:
        return facts_from_file(files[name])
    match = re.fullmatch(r"(.+)x([1-9]\d*)", name)
    if match and match[1] in files:
        facts = facts_from_file(files[match[1]])
        if not facts.device_count:
            raise ProfileError(f"{match[1]} has no devices to count; name it without x{match[2]}")
        return replace(facts, name=name, device_count=int(match[2]))
    raise ProfileError(
        f"no machine profile {name!r}.{did_you_mean(name, files)} Profiles: {', '.join(files)}; "
        "x8 after a name gives eight devices; or give a file made with `sgl facts`"
    )


@cache
def facts_from_file(file: Path) -> Facts:
    """The facts in a JSON file. Raises :class:`ProfileError` naming the file."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"machine profile {file}: {error.strerror or error}") from None
    except ValueError as error:
        raise ProfileError(f"machine profile {file}: not JSON: {error}") from None
    if not isinstance(data, Mapping) or "platform" not in data:
        raise ProfileError(f"machine profile {file}: it must be an object with a platform, as `sgl facts` prints it")
    try:
        return Facts.from_dict(data)
    except (TypeError, ValueError) as error:
        raise ProfileError(f"machine profile {file}: {error}") from None
