"""The one form in which a configuration field is declared: a class per subject, a :func:`field` per setting.

Command-line flags, environment names, config-file keys, help, documentation and the nested Config all come from it.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Union, get_args, get_origin


@dataclass(frozen=True, slots=True)
class FromRegistry:
    """Choices that grow with the installed packages: the names of a registry, and ``plus`` words of the engine's own."""

    registry: str
    plus: tuple[str, ...] = ()


def from_registry(registry: str, *plus: str) -> FromRegistry:
    """Choices of a field that vendors extend: every name in ``registry``, and the words in ``plus``."""
    return FromRegistry(registry, plus)


@dataclass(frozen=True, slots=True)
class OldFlag:
    """A deprecated flag that still works and warns.

    ``store`` is the value it stores; ``GIVEN`` means that the flag takes a value of its own. ``use`` is what to write instead.
    """

    flag: str
    use: str
    store: Any = "<given>"

    @property
    def takes_value(self) -> bool:
        return bool(self.store == GIVEN)


GIVEN = "<given>"


@dataclass(frozen=True, slots=True)
class RetiredFlag:
    """A flag of no field any more: ``refused`` says whether giving it is an error or only a warning."""

    flag: str
    advice: str
    refused: bool = False


Parse = Literal["", "size", "json", "json_list", "nullable", "lora_paths", "graph_config"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One setting.

    ``parse`` names a text form beyond the type's own: ``size`` (64k, 1.5M, 2Ki), ``json``, ``json_list``, ``nullable``
    (``None`` and the empty text mean unset), ``lora_paths``, ``graph_config``. ``nargs`` is that of the flag: ``+``, ``*``
    or ``?`` (then ``const`` is the value of the bare flag). ``pair`` gives a flag a ``--no-`` form. A field without
    ``cli`` is set by rules or from Python only. ``replaced_by`` marks a deprecated field. ``resolvable`` marks the fields that
    the reference system's model rules may decide.
    """

    name: str = ""
    namespace: str = ""
    subject: str = ""
    type: Any
    default: Any
    help: str
    choices: tuple[Any, ...] | FromRegistry | None = None
    flag: str = ""
    aliases: tuple[str, ...] = ()
    old_flags: tuple[OldFlag, ...] = ()
    parse: Parse = ""
    nargs: str = ""
    const: Any = None
    pair: bool = False
    cli: bool = True
    secret: bool = False
    resolvable: bool = False
    replaced_by: str = ""
    own: bool = False
    """True for a field that the reference system does not have."""

    @property
    def env(self) -> str:
        """The environment variable that sets the field."""
        return f"SGL_{self.name.strip('_').upper()}"

    @property
    def base_type(self) -> Any:
        """The type without ``None`` and without the parameters of a list or dict."""
        members = [m for m in union_members(self.type) if m is not type(None)]
        if len(members) > 1:
            return Union
        return get_origin(members[0]) or members[0]

    @property
    def item_type(self) -> Any:
        """The type of a list field's items."""
        for member in union_members(self.type):
            if get_origin(member) is list and get_args(member):
                return get_args(member)[0]
        return str

    @property
    def optional(self) -> bool:
        """Whether ``None`` is a legal value."""
        return type(None) in union_members(self.type)

    @property
    def is_switch(self) -> bool:
        """Whether the flag stands alone, without a value."""
        return self.base_type is bool

    @property
    def is_list(self) -> bool:
        """Whether the flag takes several words."""
        return self.nargs in ("+", "*")

    @property
    def type_text(self) -> str:
        """The type as a reader would write it."""
        return type_text(self.type)


def field(
    type_: Any,
    default: Any,
    help: str,
    *,
    choices: tuple[Any, ...] | FromRegistry | None = None,
    flag: str = "",
    aliases: tuple[str, ...] = (),
    old_flags: tuple[OldFlag, ...] = (),
    parse: Parse = "",
    nargs: str = "",
    const: Any = None,
    pair: bool = False,
    cli: bool = True,
    secret: bool = False,
    resolvable: bool = False,
    replaced_by: str = "",
) -> Field:
    """Declare a setting inside a :class:`Subject`; its name is that of the class attribute. See :class:`Field`."""
    if choices is None:
        literals = [m for m in union_members(type_) if get_origin(m) is Literal]
        choices = tuple(v for m in literals for v in get_args(m)) or None
    if not nargs and not parse and any(get_origin(m) is list for m in union_members(type_)):
        nargs = "+"
    return Field(
        type=type_,
        default=default,
        help=help,
        choices=choices,
        flag=flag,
        aliases=aliases,
        old_flags=old_flags,
        parse=parse,
        nargs=nargs,
        const=const,
        pair=pair,
        cli=cli,
        secret=secret,
        resolvable=resolvable,
        replaced_by=replaced_by,
    )


class Subject:
    """Base of the classes that declare fields; ``namespace`` is the fields' place in the nested Config."""

    namespace: ClassVar[str] = ""
    title: ClassVar[str] = ""
    own: ClassVar[bool] = False


def fields_of(subject: type[Subject]) -> Iterator[Field]:
    """The fields that a subject declares, in order, each with its name and place."""
    for name, value in vars(subject).items():
        if isinstance(value, Field):
            flag = value.flag or "--" + name.strip("_").replace("_", "-")
            yield replace(
                value, name=name, namespace=subject.namespace, subject=subject.title, flag=flag, own=subject.own
            )


def union_members(type_: Any) -> tuple[Any, ...]:
    """The members of ``A | B``, or the type alone."""
    if get_origin(type_) in (Union, types.UnionType):
        return get_args(type_)
    return (type_,)


def type_text(type_: Any) -> str:
    """``int | None``, ``list[str]``, ``full | disabled``: a type for people."""
    members = union_members(type_)
    if len(members) > 1:
        return " | ".join(type_text(m) for m in members)
    if get_origin(type_) is Literal:
        return " | ".join(str(v) for v in get_args(type_))
    if type_ is type(None):
        return "None"
    if get_origin(type_) is not None:
        inner = ", ".join(type_text(a) for a in get_args(type_))
        return f"{get_origin(type_).__name__}[{inner}]"
    return getattr(type_, "__name__", None) or str(type_).replace("typing.", "")
