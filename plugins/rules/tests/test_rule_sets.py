"""The whole of the rules: every rule has a case where it acts and one where it does not, and their order is declared."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from sgl_core.config import check_rules
from sgl_core.config.resolver import rules_of
from sgl_core.registry import Registries
from sgl_core.testing.kit import check_dist
from sgl_core.testing.rule_cases import RuleCase

HERE = Path(__file__).parent


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"sgl_rule_cases_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def all_cases() -> list[RuleCase]:
    files = [
        path
        for path in sorted(HERE.rglob("test_*.py"))
        if "CASES" in path.read_text() and path.name != Path(__file__).name
    ]
    return [case for path in files for case in load(path).CASES]


def test_every_rule_acts_in_one_case_and_not_in_another(registries: Registries) -> None:
    acts: set[str] = set()
    rests: set[str] = set()
    for case in all_cases():
        (acts if case.acts else rests).add(case.rule.name)
    names = {registered.rule.name for registered in rules_of(registries) if registered.dist == "sgl-rules"}
    assert names == acts & rests, f"no case acts: {sorted(names - acts)}; none rests: {sorted(names - rests)}"


def test_rule_names_are_unique_and_described(registries: Registries) -> None:
    rules = [registered.rule for registered in rules_of(registries) if registered.dist == "sgl-rules"]
    names = [item.name for item in rules]
    assert len(names) == len(set(names))
    assert all(item.summary.endswith(".") for item in rules), [
        item.name for item in rules if not item.summary.endswith(".")
    ]


def test_order_is_declared(registries: Registries) -> None:
    assert check_rules(rules_of(registries)) == []


def test_the_kit_accepts_the_package(registries: Registries) -> None:
    assert check_dist("sgl-rules", registries) == []


SPEED = """
import json, sys, time
from sgl_core.config import ServerArgs, resolve
from sgl_core.config.model_info import model_info_from_config
from sgl_core.registry import Registries
from sgl_core.testing.rule_cases import MACHINES
registries = Registries.discover()
config = {"architectures": ["DeepseekV3ForCausalLM"], "num_attention_heads": 128, "hidden_size": 7168}
args, model = ServerArgs.of(model_path="m", tp_size=8), model_info_from_config(config)
def yardstick():
    kept = {}
    for number in range(20_000):
        kept[number & 255] = str(number)
def spent(work):
    start = time.process_time()
    work()
    return time.process_time() - start
times, units = [], []
for _ in range(60):
    times.append(spent(lambda: resolve(args, MACHINES["sm100"], model, registries)))
    units.append(spent(yardstick))
heavy = [name for name in ("torch", "transformers", "triton") if name in sys.modules]
print(json.dumps({"best": min(times), "unit": min(units), "heavy": heavy}))
"""


def test_deepseek_on_b200_resolves_in_five_milliseconds_without_torch() -> None:
    """On a 2 GHz core, where the yardstick takes four: slower machines take longer for both."""
    out = subprocess.run([sys.executable, "-c", SPEED], capture_output=True, text=True, check=True, timeout=60)
    measured = json.loads(out.stdout)
    assert measured["heavy"] == []
    assert measured["best"] < measured["unit"] * 5 / 4, measured


def test_no_choice_is_offered_by_two_packages(registries: Registries) -> None:
    """A package that serves a choice takes its entry over from this one."""
    assert [str(conflict) for registry in registries for conflict in registry.conflicts()] == []
