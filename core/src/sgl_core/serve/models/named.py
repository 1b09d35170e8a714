"""Which models: ``--model NAME=PATH`` and the models file, as options of their own over those they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sgl_core.config import ConfigError, ServerArgs
from sgl_core.config.fields import fields
from sgl_core.config.sources import read_file
from sgl_core.config.values import BadValue, parse_size

SHARED = frozenset(
    [
        "models",
        "models_file",
        "models_memory",
        "host",
        "port",
        "fastapi_root_path",
        "api_key",
        "admin_api_key",
        "cors_origins",
        "max_body_mib",
        "drain_seconds",
        "file_storage_path",
        "docs_page",
        "log_level",
        "log_level_http",
        "uvicorn_access_log_exclude_prefixes",
        "ssl_keyfile",
        "ssl_certfile",
        "ssl_ca_certs",
        "ssl_keyfile_password",
        "enable_ssl_refresh",
        "served_model_name",
        "extra_metric_labels",
        "plugins_allow",
        "plugins_deny",
        "prefer",
        "safe_mode",
        "locked",
    ]
)
"""Settings of the server, which no single model can have for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """One model. ``memory``: bytes that the operator reserves for it; None: what its weights and KV pool take."""

    name: str
    args: ServerArgs
    memory: int | None = None
    preload: bool = False


def several(args: ServerArgs) -> bool:
    """Whether the options ask for several models (or for one with a name)."""
    return bool(args.get("models") or args.get("models_file"))


def named_models(args: ServerArgs, registries: Any) -> list[NamedModel]:
    """The models in the order given, those of the command line first. Raises ConfigError naming what is wrong."""
    for name in ("model_path", "served_model_name"):
        if args.explicit(name):
            setting = args.setting(name)
            raise ConfigError(
                f"{setting.spelled if setting else name} {args.get(name)} stands beside several named models",
                fields=(name, "models"),
                fix="write it as --model NAME=PATH",
            )
    asked: list[tuple[str, Any]] = []
    for word in args.get("models") or ():
        name, equals, path = word.partition("=")
        if not (name and equals and path):
            raise ConfigError(f"models: {word!r} is not NAME=PATH", fields=("models",))
        asked.append((name, path))
    if args.get("models_file"):
        asked += _of_file(args.get("models_file"))
    names = [name for name, _ in asked]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two models have the name {name!r}", fields=("models", "models_file"))
    return [_model(name, settings, args, registries) for name, settings in asked]


def _of_file(path: str) -> list[tuple[str, Any]]:
    data = read_file(path)
    listed = data.get("models", data)
    if not isinstance(listed, Mapping) or not listed or (listed is not data and len(data) > 1):
        raise ConfigError(
            f"models file {path}: must be a mapping of names to paths or settings",
            fields=("models_file",),
            fix="write lines such as `small: /models/small`",
        )
    return [(str(name), settings) for name, settings in listed.items()]


def _model(name: str, settings: Any, args: ServerArgs, registries: Any) -> NamedModel:
    own = {"model_path": settings} if isinstance(settings, str) else settings
    if not isinstance(own, Mapping):
        raise ConfigError(
            f"model {name}: must be a path or a mapping of settings, not {own!r}", fields=("models_file",)
        )
    own = {str(key).strip("-").replace("-", "_"): value for key, value in own.items()}
    own = {"model_path" if key in ("model", "path") else key: value for key, value in own.items()}
    memory, preload = own.pop("memory", None), own.pop("preload", False)
    if not isinstance(preload, bool):
        raise ConfigError(f"model {name}: preload must be true or false, not {preload!r}", fields=("models_file",))
    try:
        memory = parse_size(memory) if isinstance(memory, str) else memory
    except BadValue as error:
        raise ConfigError(f"model {name}: memory: {error}", fields=("models_file",)) from None
    if memory is not None and (type(memory) is not int or memory < 0):
        raise ConfigError(f"model {name}: memory must be a size, not {memory!r}", fields=("models_file",))
    if not own.get("model_path"):
        raise ConfigError(f"model {name}: names no model_path", fields=("models_file",))
    shared = sorted(SHARED & set(own))
    if shared:
        raise ConfigError(
            f"model {name}: {', '.join(shared)} holds for the whole server",
            fields=tuple(entry for entry in shared if entry in fields()),
            fix="give it on the command line",
        )
    try:
        checked = ServerArgs.from_sources(cli=own, registries=registries)
        merged = args.replaced(source="file", **{key: checked.get(key) for key in checked}, served_model_name=name)
    except ConfigError as error:
        raise ConfigError(f"model {name}: {error.because}", fields=error.fields, fix=error.fix) from None
    return NamedModel(name=name, args=merged, memory=memory, preload=preload)
