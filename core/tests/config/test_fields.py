"""Every field of the reference system exists here, with its type, default, flags, choices and place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sgl_core.config.argv import spellings
from sgl_core.config.declare import Field, FromRegistry, Subject, field, fields_of
from sgl_core.config.fields import RETIRED_FLAGS, SUBJECTS, fields
from sgl_core.registry import Registries

REFERENCE = json.loads((Path(__file__).parent.parent / "data" / "server_args_fields.json").read_text())
PARSERS = {
    None: "",
    "human_readable_int": "size",
    "json.loads": "json",
    "json_list_type": "json_list",
    "nullable_str": "nullable",
    "parse_cuda_graph_config_arg": "graph_config",
}
CONSTANTS = {"Backend.BREAKABLE": "breakable", "Backend.DISABLED": "disabled", "Backend.TC_PIECEWISE": "tc_piecewise"}
TYPE_TEXTS = {
    "Optional[Callable]": "Callable[Ellipsis, Any] | None",
    "Optional[CudaGraphConfig]": "dict[str, dict[str, Any]] | None",
    "Optional[Union[str, Dict]]": "str | dict[str, Any] | None",
    "Optional[Union[str, Dict[str, int]]]": "str | dict[str, int] | None",
    "Optional[Union[set[str], List[str]]]": "set[str] | list[str] | None",
    "Optional[Union[dict[str, str], List[dict[str, str]], List[str], List[LoRARef]]]": (
        "dict[str, str] | list[dict[str, str]] | list[str] | None"
    ),
    "Literal[None, 'mooncake', 'nixl']": "none | mooncake | nixl | None",
}
"""The reference's types that are written otherwise here: classes of its own, and a Literal whose None is spelled "none"."""


def expected_type(text: str, ours: Field) -> str:
    """The reference's type text in the form of ``Field.type_text``."""
    if text in TYPE_TEXTS:
        return TYPE_TEXTS[text]
    optional = text.startswith("Optional[")
    inner = text[len("Optional[") : -1] if optional else text
    if inner.startswith("Literal["):
        values = inner[len("Literal[") : -1].replace("'", "").split(", ")
        # A list of words that packages extend cannot be a closed Literal.
        inner = "str" if isinstance(ours.choices, FromRegistry) else " | ".join(values)
    inner = inner.replace("List[", "list[").replace("Dict[", "dict[")
    return f"{inner} | None" if optional else inner


@pytest.mark.parametrize("wanted", REFERENCE["fields"], ids=lambda wanted: wanted["name"])
def test_field_is_the_references(wanted: dict[str, Any]) -> None:
    ours = fields()[wanted["name"]]
    assert ours.type_text == expected_type(wanted["type"], ours)
    assert ours.default == wanted["default"]
    assert type(ours.default) is type(wanted["default"]) or isinstance(ours.default, float)
    assert ours.namespace == wanted["namespace"]
    assert ours.resolvable == wanted.get("resolvable", False)
    assert ours.parse == ("lora_paths" if ours.name == "lora_paths" else PARSERS[wanted.get("type_parser")])
    assert not ours.own
    has_flag = "cli" in wanted or wanted.get("cli_registered_manually", False)
    assert ours.cli == has_flag
    if has_flag:
        assert ours.flag == wanted.get("cli", "--" + ours.name.replace("_", "-"))
        assert list(ours.aliases) == wanted.get("aliases", [])
        assert ours.pair == (wanted.get("action") == "argparse.BooleanOptionalAction")
        assert ours.nargs == expected_nargs(wanted)
        assert ours.const == wanted.get("const")


def expected_nargs(wanted: dict[str, Any]) -> str:
    if wanted["name"] == "lora_paths":
        return "*"
    return wanted.get("nargs") or ("+" if wanted.get("cli_kind") == "list" else "")


OWN_CHOICES = {"kv_cache_dtype": frozenset({"int8"})}
"""Values that only we serve."""


@pytest.mark.parametrize(
    "wanted", [f for f in REFERENCE["fields"] if "choices" in f], ids=lambda wanted: wanted["name"]
)
def test_literal_choices_are_the_references(wanted: dict[str, Any]) -> None:
    ours = fields()[wanted["name"]]
    if not isinstance(ours.choices, FromRegistry):
        assert ours.choices is not None
        assert set(ours.choices) - OWN_CHOICES.get(wanted["name"], frozenset()) == set(wanted["choices"])


def test_fields_without_choices_have_none() -> None:
    free = [f["name"] for f in REFERENCE["fields"] if not f.get("choices") and not f.get("choices_ref")]
    assert [name for name in free if fields()[name].choices is not None] == []


def test_names_in_order_and_only_our_own_besides() -> None:
    names = [wanted["name"] for wanted in REFERENCE["fields"]]
    assert len(names) == 494
    assert set(fields()) - set(names) == {name for name, ours in fields().items() if ours.own}


def test_registry_choices_hold_the_references_words() -> None:
    registries = Registries.discover()
    missing: dict[str, set[str]] = {}
    for wanted in REFERENCE["fields"]:
        ours = fields()[wanted["name"]]
        if not isinstance(ours.choices, FromRegistry):
            continue
        words = set(wanted.get("choices") or REFERENCE["choice_lists"][wanted["choices_ref"]])
        registry = registries[ours.choices.registry]
        lacking = {word for word in words - set(ours.choices.plus) if word not in registry}
        if lacking:
            missing[ours.name] = lacking
    assert missing == {}


@pytest.mark.parametrize("wanted", REFERENCE["deprecated_flags"], ids=lambda wanted: wanted["flags"][0])
def test_deprecated_flags(wanted: dict[str, Any]) -> None:
    flag = wanted["flags"][0]
    if not wanted["dest_is_field"]:
        retired = next(retired for retired in RETIRED_FLAGS if retired.flag == flag)
        assert retired.refused == (flag == "--enable-expert-distribution-metrics")
        return
    spelling = spellings()[flag]
    assert spelling.field.name == wanted["dest"]
    if wanted["action"] == "DeprecatedStoreConstAction":
        assert (spelling.takes_value, spelling.store) == (False, CONSTANTS[wanted["const_value"]])
    elif wanted["action"] == "DeprecatedAliasStoreAction":
        assert spelling.takes_value
    else:
        assert (spelling.takes_value, spelling.store) == (False, True)
    assert (spelling.old.use if spelling.old else spelling.field.replaced_by).lstrip("-") in (
        wanted["replacement"].lstrip("-"),
        wanted["replacement"].lstrip("-").replace("-", "_"),
    )


def test_deprecated_fields_name_their_replacement() -> None:
    for wanted in REFERENCE["deprecated_fields"]:
        assert fields()[wanted["field"]].replaced_by == wanted["replacement"]


def test_every_field_says_what_it_does() -> None:
    for ours in fields().values():
        assert len(ours.help) > 15, ours.name
        assert ours.help.endswith((".", "}.")), ours.name
        assert ours.subject, ours.name


def test_environment_names_are_unique() -> None:
    names = [ours.env for ours in fields().values()]
    assert len(set(names)) == len(names)


def test_secrets_are_marked() -> None:
    assert {name for name, ours in fields().items() if ours.secret} == {
        "api_key",
        "admin_api_key",
        "ssl_keyfile_password",
    }


def test_a_name_declared_twice_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Again(Subject):
        namespace = "schedule"
        title = "Again"
        page_size = field(int, 1, "Declared a second time.")

    assert [declared.name for declared in fields_of(Again)] == ["page_size"]
    monkeypatch.setattr("sgl_core.config.fields.SUBJECTS", (*SUBJECTS, Again))
    fields.cache_clear()
    try:
        with pytest.raises(ValueError, match="page_size is declared twice: Scheduling, Again"):
            fields()
    finally:
        fields.cache_clear()
