"""ServerArgs: what the operator asked for, and where each wish was written. Command line over environment over file over default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .argv import Parsed, parse_argv
from .choices import check_choice
from .declare import Field
from .errors import ConfigError, did_you_mean
from .fields import fields
from .sources import Setting, from_environment, from_mapping, read_file
from .values import BadValue, check_value

SECRET_SHOWN = "********"


class ServerArgs:
    """Immutable. A field is an attribute: ``args.page_size`` is the user's value, or the default where unset."""

    __slots__ = ("_settings", "warnings")

    def __init__(self, settings: Mapping[str, Setting], warnings: Sequence[str] = ()) -> None:
        object.__setattr__(self, "_settings", dict(settings))
        object.__setattr__(self, "warnings", tuple(dict.fromkeys(warnings)))

    warnings: tuple[str, ...]
    _settings: dict[str, Setting]

    @classmethod
    def from_sources(
        cls,
        cli: Mapping[str, Any] | Sequence[str] | Parsed | None = None,
        env: Mapping[str, str] | None = None,
        file: str | None = None,
        registries: Any = None,
    ) -> ServerArgs:
        """Read every source and check every value in the same way.

        ``cli`` is a command line (then one positional word is the model, and ``--config FILE`` names the file), one that is parsed
        already, or a mapping of field names from Python. ``env`` is read only where given. ``registries`` know the choices of fields that packages extend;
        without them those fields take any word. Raises :class:`ConfigError` naming every problem found.
        """
        given, files, warnings, problems = read_cli(cli)
        layers = [given]
        if env is not None:
            layers.append(collect(from_environment(env), warnings, problems))
        files = [file, *files] if file is not None else files
        if len(files) > 1:
            problems.append(ConfigError(f"more than one config file: {', '.join(files)}", fix="give one --config"))
        elif files:
            try:
                layers.append(collect(from_mapping(read_file(files[0]), "file", f"{files[0]}:"), warnings, problems))
            except ConfigError as problem:
                problems.append(problem)
        settings: dict[str, Setting] = {}
        for layer in layers:
            for name, setting in layer.items():
                checked = checked_setting(fields()[name], setting, registries, problems)
                if checked is not None:
                    settings.setdefault(name, checked)
        refuse(problems)
        return cls(settings, [*warnings, *deprecations(settings)])

    @classmethod
    def of(cls, **values: Any) -> ServerArgs:
        """Settings from Python, by field name. Raises :class:`ConfigError`."""
        return cls.from_sources(cli=values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.get(name)
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("ServerArgs are immutable; make new ones with replaced()")

    def get(self, name: str) -> Any:
        """The value of a field by name. Raises KeyError with the nearest names."""
        if name in self._settings:
            return self._settings[name].value
        return known_field(name).default

    def explicit(self, name: str) -> bool:
        """Whether the user set the field, in whichever source."""
        known_field(name)
        return name in self._settings

    def setting(self, name: str) -> Setting | None:
        """The user's setting with its provenance, or None where unset."""
        known_field(name)
        return self._settings.get(name)

    def __iter__(self) -> Iterator[str]:
        """The names of the fields that the user set."""
        return iter(self._settings)

    def replaced(self, source: str = "api", **values: Any) -> ServerArgs:
        """The same settings with some replaced. Raises :class:`ConfigError`."""
        changed = ServerArgs.from_sources(cli=values)
        merged = dict(self._settings)
        for name in changed:
            setting = changed._settings[name]
            merged[name] = Setting(setting.value, source, setting.spelled)
        return ServerArgs(merged, self.warnings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServerArgs) and self._settings == other._settings

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._settings)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{n}={masked(fields()[n], s.value)!r}" for n, s in self._settings.items())
        return f"ServerArgs({shown})"

    def __reduce__(self) -> Any:
        return ServerArgs, (self._settings, self.warnings)


Layer = dict[str, Setting]


def read_cli(
    cli: Mapping[str, Any] | Sequence[str] | Parsed | None,
) -> tuple[Layer, list[str], list[str], list[ConfigError]]:
    """The first source: settings, config files named, warnings, problems."""
    if cli is None:
        return {}, [], [], []
    if isinstance(cli, Mapping):
        settings, warnings, problems = from_mapping(cli, "api", "")
        return settings, [], warnings, problems
    parsed = cli if isinstance(cli, Parsed) else parse_argv(cli)
    settings = {name: Setting(value, "cli", flag) for name, (value, flag) in parsed.values.items()}
    problems = list(parsed.problems)
    if len(parsed.positional) > 1:
        extra = ", ".join(parsed.positional[1:])
        problems.append(ConfigError(f"only one MODEL can be served; not understood: {extra}", fix="put MODEL first"))
    if parsed.positional:
        if "model_path" in settings and settings["model_path"].value != parsed.positional[0]:
            problems.append(
                ConfigError(
                    f"two models: {parsed.positional[0]} and {settings['model_path'].spelled} {settings['model_path'].value}",
                    fields=("model_path",),
                    fix="name it once",
                )
            )
        settings["model_path"] = Setting(parsed.positional[0], "cli", "MODEL")
    return settings, list(parsed.config_files), list(parsed.warnings), problems


def collect(
    read: tuple[Layer, list[str], list[ConfigError]], warnings: list[str], problems: list[ConfigError]
) -> Layer:
    """Keep a source's warnings and problems; give its settings."""
    warnings += read[1]
    problems += read[2]
    return read[0]


def checked_setting(declared: Field, setting: Setting, registries: Any, problems: list[ConfigError]) -> Setting | None:
    """The setting with its value checked, or None with the problem noted."""
    try:
        value = check_value(declared, setting.value)
        check_choice(declared, value, registries)
    except BadValue as error:
        what = setting.spelled if setting.source != "api" else declared.name
        problems.append(ConfigError(f"{what}: {error}", fields=(declared.name,)))
        return None
    return Setting(value, setting.source, setting.spelled)


def deprecations(settings: Mapping[str, Setting]) -> list[str]:
    """A warning for each deprecated field that was set under its own name (old flags have warned already)."""
    old_flags = {old.flag for declared in fields().values() for old in declared.old_flags}
    return [
        f"{setting.spelled} is deprecated; use {fields()[name].replaced_by}"
        for name, setting in settings.items()
        if fields()[name].replaced_by and setting.spelled not in old_flags
    ]


def refuse(problems: list[ConfigError]) -> None:
    """Raise one error that says everything that is wrong; nothing where all is well."""
    if not problems:
        return
    if len(problems) == 1:
        raise problems[0]
    names = tuple(dict.fromkeys(name for problem in problems for name in problem.fields))
    listed = "\n".join(f"- {problem.message()}" for problem in problems)
    raise ConfigError(f"{len(problems)} settings are wrong:\n{listed}", fields=names)


def known_field(name: str) -> Field:
    """The declaration of a field. Raises KeyError with the nearest names."""
    try:
        return fields()[name]
    except KeyError:
        raise KeyError(f"no configuration field {name!r}.{did_you_mean(name, fields())}") from None


def masked(declared: Field, value: Any) -> Any:
    """The value as it may be shown: secrets are starred."""
    return SECRET_SHOWN if declared.secret and value is not None else value
