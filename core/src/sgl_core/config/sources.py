"""The three places where an operator writes settings (command line, environment, file), read into one form with provenance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .argv import spellings
from .declare import Field
from .errors import ConfigError, did_you_mean
from .fields import fields
from .values import BadValue, from_text, parse_json

ENV_PREFIX = "SGL_"
OTHER_READERS = ("SGL_CACHE_DIR", "SGL_CPU_", "SGL_OPS_")
"""Variables with our prefix that set no field: the cache folder, and what platforms and kernels read for themselves."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One explicit setting: its value, which source it came from (``cli``, ``env``, ``file``, ``api``) and as what it was written."""

    value: Any
    source: str
    spelled: str


def from_environment(env: Mapping[str, str]) -> tuple[dict[str, Setting], list[str], list[ConfigError]]:
    """Settings in ``SGL_*`` variables, warnings, problems.

    A name that is nearly a field's is refused; another unknown one is only reported, because the prefix is not ours alone.
    """
    by_name = {declared.env: declared for declared in fields().values() if declared.cli or declared.old_flags}
    settings: dict[str, Setting] = {}
    warnings: list[str] = []
    problems: list[ConfigError] = []
    for name in sorted(env):
        if not name.startswith(ENV_PREFIX) or (name not in by_name and name.startswith(OTHER_READERS)):
            continue
        declared = by_name.get(name)
        if declared is None:
            near = did_you_mean(name, by_name, cutoff=0.88)
            if near:
                problems.append(
                    ConfigError(f"environment variable {name} sets no field.{near}", fix="correct or unset it")
                )
            else:
                warnings.append(f"environment variable {name} sets no field and is ignored")
            continue
        try:
            settings[declared.name] = Setting(env_value(declared, env[name]), "env", name)
        except BadValue as error:
            problems.append(ConfigError(f"{name}: {error}", fields=(declared.name,), fix=env_fix(env[name])))
    return settings, warnings, problems


def env_value(declared: Field, text: str) -> Any:
    """A variable's value: lists as JSON, or words apart by commas or spaces."""
    if not declared.is_list:
        return from_text(declared, text)
    if text.lstrip().startswith("["):
        return parse_json(text)
    return [from_text(declared, word) for word in re.split(r"[,\s]+", text.strip()) if word]


def env_fix(text: str) -> str:
    """Advice for the one way in which such variables appear by themselves."""
    if re.match(r"(tcp|udp)://", text):
        return "this looks like a Kubernetes service link; rename the service or set enableServiceLinks: false"
    return ""


def read_file(path: str) -> dict[str, Any]:
    """The mapping in a YAML (or JSON) file. Raises ConfigError naming the file."""
    file = Path(path)
    if file.suffix.lower() not in (".yaml", ".yml", ".json"):
        raise ConfigError(f"config file {path}: the name must end in .yaml, .yml or .json")
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"config file {path}: {error.strerror or error}") from None
    import yaml  # here: a second of nobody's time unless a file is given

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"config file {path}: not YAML: {error}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"config file {path}: the top level must be a mapping of settings")
    return {str(key): value for key, value in data.items()}


def from_mapping(
    data: Mapping[str, Any], source: str, place: str
) -> tuple[dict[str, Setting], list[str], list[ConfigError]]:
    """Settings of a mapping: keys are field names or flags, with dashes or underscores, old spellings with a warning."""
    table = fields()
    flags = spellings()
    settings: dict[str, Setting] = {}
    warnings: list[str] = []
    problems: list[ConfigError] = []
    for key, value in data.items():
        spelled = f"{place}{key}"
        name = key.strip("-").replace("-", "_") if not key.startswith("_") else key
        if name in table and (source == "api" or table[name].cli or table[name].replaced_by):
            settings[name] = Setting(value, source, spelled)
            continue
        flag = flags.get("--" + name.replace("_", "-"))
        if flag is None or (flag.field.name in table and name in table):
            near = did_you_mean(name, table)
            problems.append(
                ConfigError(f"{spelled}: no such setting.{near}", fix="use field names as in docs/configuration.md")
            )
            continue
        if flag.old is not None:
            warnings.append(f"{spelled} is deprecated; use {flag.old.use}")
        if flag.takes_value:
            settings[flag.field.name] = Setting(value, source, spelled)
        elif value is True:
            settings[flag.field.name] = Setting(flag.store, source, spelled)
        elif value is not False:
            problems.append(ConfigError(f"{spelled}: takes true or false, not {value!r}", fields=(flag.field.name,)))
    return settings, warnings, problems
