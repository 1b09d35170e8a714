"""The plan: JSON in and out, the same registries in another process, and drift. Field case 188."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from sgl_core.api import ChoiceSpec, Facts, ModelInfo, ModelSpec, PlatformSpec
from sgl_core.config.config import Config
from sgl_core.plan import Plan, PlanDrift, make_plan
from sgl_core.registry import DuplicateNames, Registries
from sgl_core.registry.selection import NO_MODEL
from sgl_core.testing.fake_dists import fake_dist

pytestmark = pytest.mark.field_case("188")

SPECS = dedent("""
    import os
    from sgl_core.api import ModelSpec, ParserSpec, PlatformSpec
    MODEL = ModelSpec(name="ArchX", target="planned_target:Model")
    PARSER = ParserSpec(name="parser_x", target="planned_target:Model")
    PLATFORM = PlatformSpec(name="nowhere", target="planned_target:runtime", flags=frozenset({"no_model"}))
""")
TARGET = dedent("""
    import os
    with open(os.environ["SGL_TEST_PIDS"], "a") as file:
        file.write(f"{os.getpid()}\\n")
    class Model: pass
    def runtime(plan): return ("runtime", plan.facts.platform)
""")
ENTRIES = {
    "models": {"ArchX": "planned_specs:MODEL"},
    "tool_parsers": {"parser_x": "planned_specs:PARSER"},
    "platforms": {"nowhere": "planned_specs:PLATFORM"},
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site-packages"
    fake_dist(folder, "arch-x", "1.0", ENTRIES, {"planned_specs.py": SPECS, "planned_target.py": TARGET})
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("SGL_TEST_PIDS", str(tmp_path / "pids"))
    for name in ("planned_specs", "planned_target"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def plan_of(registries: Registries) -> Plan:
    for registry in ("eviction_policies", "schedule_policies"):
        for name in ("lru", "fcfs"):
            if name not in registries[registry].names():
                registries[registry].add(ChoiceSpec(name=name, target="json:dumps"))
    return make_plan(
        registries=registries,
        config=Config({"tool_call_parser": "parser_x"}),
        facts=Facts(platform="nowhere", features=frozenset({"b", "a"})),
        model=ModelInfo(architecture="ArchX", layer_types=("full", "sliding"), hf_config={"a": [1]}),
        env={"X": "1"},
    )


def test_json_round_trip(site: Path) -> None:
    plan = plan_of(Registries.discover(path=[str(site)]))
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert again.model.layer_types == ("full", "sliding")
    assert again.selection["tool_parsers"]["dist"] == "arch-x"
    assert again.dists == {"arch-x": "1.0"}
    with pytest.raises(ValueError, match=r"unknown speed"):
        Plan.from_json(json.dumps({**json.loads(plan.to_json()), "speed": 1}))


def test_the_runtime_is_the_platforms(site: Path) -> None:
    assert plan_of(Registries.discover(path=[str(site)])).runtime() == ("runtime", "nowhere")


def test_entries_added_by_program_travel(site: Path) -> None:
    registries = Registries.discover(path=[str(site)])
    registries.models.add(ModelSpec(name="Mine", stacked_weights={"qkv": ("q", "k")}), dist="my-app")
    again = Plan.from_json(plan_of(registries).to_json()).registries()
    assert again.models.spec("Mine").stacked_weights == {"qkv": ("q", "k")}
    assert again.models.owner("Mine").name == "my-app"


def test_a_distribution_installed_later_takes_no_part(site: Path) -> None:
    plan = plan_of(Registries.discover(path=[str(site)]))
    fake_dist(site, "late", "1.0", {"models": {"ArchX": "late:MODEL"}})
    assert plan.registries().models.owner("ArchX").name == "arch-x"


def test_drift_is_an_error_that_names_it(site: Path) -> None:
    plan = plan_of(Registries.discover(path=[str(site)]))
    info = site / "arch_x-1.0.dist-info"
    info.rename(site / "arch_x-1.1.dist-info")
    with pytest.raises(PlanDrift, match=r"arch-x was 1\.0 and is 1\.1"):
        plan.registries()
    (site / "arch_x-1.1.dist-info").rename(site / "gone")
    with pytest.raises(PlanDrift, match=r"arch-x 1\.0 is gone"):
        plan.registries()


def test_a_chosen_entry_that_changed_is_drift(site: Path) -> None:
    plan = plan_of(Registries.discover(path=[str(site)]))
    (site / "planned_specs.py").write_text(SPECS.replace("planned_target:runtime", "planned_target:other"))
    sys.modules.pop("planned_specs", None)
    with pytest.raises(PlanDrift, match=r"platforms 'nowhere' of arch-x has another target"):
        plan.registries()


def test_conflicts_stop_the_plan(site: Path) -> None:
    fake_dist(site, "rival", "2.0", {"attention": {"x": "a:B"}})
    fake_dist(site, "rival-two", "2.0", {"attention": {"x": "a:B"}})
    with pytest.raises(DuplicateNames, match=r"rival 2\.0 and rival-two 2\.0"):
        plan_of(Registries.discover(path=[str(site)]))


def test_null_platforms_need_the_flag() -> None:
    assert NO_MODEL in PlatformSpec(name="x", flags=frozenset({"no_model"})).flags


def use_plan(text: str, results: multiprocessing.SimpleQueue) -> None:
    """In a spawned process: the plugin's model and parser are there, each loaded once."""
    registries = Plan.from_json(text).registries()
    for _ in range(2):
        registries.models.load("ArchX")
        registries.tool_parsers.load("parser_x")
    results.put((os.getpid(), registries.models.owner("ArchX").name))


def test_every_spawned_process_has_the_plugin_loaded_once(site: Path, tmp_path: Path) -> None:
    text = plan_of(Registries.discover(path=[str(site)])).to_json()
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    workers = [context.Process(target=use_plan, args=(text, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    answers = dict(results.get() for _ in workers)
    assert set(answers.values()) == {"arch-x"}
    assert sorted((tmp_path / "pids").read_text().split()) == sorted(str(pid) for pid in answers)
