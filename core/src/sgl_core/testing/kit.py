"""Conformance checks for plugin authors: what an installed package must fulfil so that sgl can use it everywhere.

In a plugin's own tests: ``assert check_dist("my-plugin") == []``; on the command line: ``sgl plugin check my-plugin``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import STAGES, Rule
from sgl_core.api.specs import Option, Spec
from sgl_core.registry.codec import spec_from_dict, spec_to_dict
from sgl_core.registry.errors import RegistryError
from sgl_core.registry.registries import Registries
from sgl_core.registry.registry import Offer, Registry
from sgl_core.registry.requirements import unmet
from sgl_core.registry.scan import canonical

HEAVY = ("torch", "transformers", "triton", "tensorflow", "jax", "mlx", "vllm", "flashinfer")
"""Modules that importing a spec must not import."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*$")
_ROLES = frozenset({"parent", "front", "worker", "cli"})
_OPTION_TYPES = (str, int, float, bool)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with an entry (``registry.name``)."""

    entry: str
    problem: str


def check_dist(dist: str, registries: Registries | None = None, load: bool = True) -> list[Finding]:
    """All findings on a distribution's entries; none means that it conforms.

    Checks that each spec imports, agrees with its entry and survives JSON; that importing all specs imports nothing
    heavy (in a process of its own); that names, roles, options and requirements are well formed; and, with ``load``, that
    targets exist and rule sets are pure. Raises RegistryError when the distribution offers nothing.
    """
    registries = registries or Registries.discover()
    name = canonical(dist)
    offers = [(registry, offer) for registry in registries for offer in registry.offers() if offer.dist.name == name]
    if not offers:
        raise RegistryError(
            f"{dist} offers no entry in any sgl registry; is it installed, and does it declare entry points?"
        )
    findings = [finding for registry, offer in offers for finding in check_entry(registry, offer, registries, load)]
    findings += check_imports([offer.value for _, offer in offers if not offer.added])
    return findings


def check_entry(registry: Registry[Any], offer: Offer, registries: Registries, load: bool = True) -> list[Finding]:
    """Findings on one entry."""
    label = f"{registry.info.name}.{offer.name}"
    try:
        spec = registry.spec(offer.name)
    except RegistryError as error:
        return [Finding(label, str(error))]
    problems = [*_name_problems(spec), *_option_problems(spec)]
    if set(spec.roles) - _ROLES:
        problems.append(f"roles {', '.join(sorted(set(spec.roles) - _ROLES))} are none of {', '.join(sorted(_ROLES))}")
    if not spec.available and not spec.unavailable_because:
        problems.append("says that it is unavailable, but not why (unavailable_because)")
    problems += [
        f"requirement {text!r} {why}" for text, why in unmet(spec.requires, registries.installed) if "valid" in why
    ]
    if spec_from_dict(type(spec), json.loads(json.dumps(spec_to_dict(spec)))) != spec:
        problems.append(
            "its spec does not survive JSON; use strings, numbers, tuples, frozensets and mappings of these"
        )
    if load and spec.target and registry.status(offer.name).state == "ok":
        try:
            target = registry.load(offer.name)
        except RegistryError as error:
            problems.append(str(error))
        else:
            problems += rule_problems(target) if registry.info.name == "rules" else _target_problems(registry, target)
    return [Finding(label, problem) for problem in problems]


def check_imports(values: Iterable[str]) -> list[Finding]:
    """Import spec modules in a fresh interpreter and report heavy modules that came with them."""
    modules = sorted({value.partition(":")[0] for value in values})
    code = (
        "import importlib, json, sys\n"
        "heavy = set(json.loads(sys.argv[2]))\n"
        "found = {}\n"
        "for name in json.loads(sys.argv[1]):\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except Exception:\n"
        "        continue\n"  # the spec's own check reports it
        "    new = sorted(heavy & set(sys.modules))\n"
        "    if new:\n"
        "        found[name] = new\n"
        "        heavy -= set(new)\n"
        "print(json.dumps(found))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, json.dumps(modules), json.dumps(HEAVY)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if run.returncode != 0:
        return [Finding(", ".join(modules), f"importing the specs ended the interpreter: {run.stderr.strip()[-400:]}")]
    found: dict[str, list[str]] = json.loads(run.stdout.splitlines()[-1])
    return [
        Finding(module, f"importing it imports {', '.join(heavy)}; a spec module imports sgl_core.api only")
        for module, heavy in found.items()
    ]


def rule_problems(target: Any) -> list[str]:
    """Findings on a rule set: a sequence of rules, in known stages, pure over plain data."""
    if not isinstance(target, (list, tuple)) or not all(isinstance(item, Rule) for item in target):
        return ["a rule set's target is a list or tuple of functions marked with @rule"]
    problems = [f"rule {item.name}: there is no stage {item.stage!r}" for item in target if item.stage not in STAGES]
    names = [item.name for item in target]
    problems += [f"rule {name} stands twice in the set" for name in sorted({n for n in names if names.count(n) > 1})]
    for item in target:
        problems += _purity_problems(item)
    return problems


def _purity_problems(item: Rule) -> list[str]:
    """Run a rule twice over the same data: equal answers, and only fields it announced.

    A rule may need what earlier stages decide, which plain defaults do not have; then it raises, and only its
    spelling of the fields can be judged.
    """
    from sgl_core.testing.views import DefaultsView, UnknownField

    architecture = item.architectures[0] if item.architectures else "LlamaForCausalLM"
    facts = Facts(platform=item.platforms[0] if item.platforms else "cpu")
    model = ModelInfo(architecture=architecture)
    try:
        first, second = (list(item.function(DefaultsView(), facts, model)) for _ in range(2))
    except UnknownField as error:
        return [f"rule {item.name}: {error}"]
    except Exception:
        return []
    if first != second:
        return [f"rule {item.name} answers differently when it is asked twice; a rule depends on its arguments only"]
    declared = {field for field in (getattr(answer, "field", "") for answer in first) if field}
    return [
        f"rule {item.name} declares {field} without announcing it in writes="
        for field in sorted(declared - set(item.writes))
    ]


def _name_problems(spec: Spec) -> list[str]:
    problems = [
        f"{name!r} is not a legal name (letters, digits, and . _ + - inside)"
        for name in (spec.name, *spec.aliases, *spec.deprecated_aliases)
        if not _NAME.match(name)
    ]
    if spec.name in (*spec.aliases, *spec.deprecated_aliases):
        problems.append("lists its own name as an alias")
    return problems


def _option_problems(spec: Spec) -> list[str]:
    problems = []
    for option in spec.options:
        if not isinstance(option, Option):
            problems.append(f"option {option!r} is not an Option")
            continue
        if not option.name.startswith(f"{spec.name}."):
            problems.append(f"option {option.name!r} must be named {spec.name}.<option>")
        if option.type not in _OPTION_TYPES:
            problems.append(f"option {option.name}: type {option.type!r} is none of str, int, float, bool")
        elif option.default is not None and not isinstance(option.default, option.type):
            problems.append(f"option {option.name}: default {option.default!r} is no {option.type.__name__}")
        if option.choices and option.default is not None and option.default not in option.choices:
            problems.append(f"option {option.name}: default {option.default!r} is none of its choices")
        if not option.help:
            problems.append(f"option {option.name} has no help line")
    return problems


def _target_problems(registry: Registry[Any], target: Any) -> list[str]:
    if registry.info.name in ("hooks", "chat_templates") or callable(target):
        return []
    return [f"its target is a {type(target).__name__}, which cannot be called"]
