"""In which order the rules of one stage run, and the check that this order is no accident.

Inside a stage a rule that only writes a field comes before those that read and write it, and these before those that only read it;
``after`` and ``before`` outweigh that; what is still free goes by name. The work grows linearly with the rules.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sgl_core.api.rules import STAGES, Rule


@dataclass(frozen=True, slots=True)
class RegisteredRule:
    """A rule and where it came from."""

    rule: Rule
    dist: str = ""
    version: str = ""
    rule_set: str = ""
    architectures: tuple[str, ...] = ()
    """The models that the rule's set is for; empty means all."""

    @property
    def place(self) -> str:
        """``package/file.py:line`` of the function."""
        code = getattr(self.rule.function, "__code__", None)
        if code is None:
            return ""
        file = "/".join(code.co_filename.replace("\\", "/").rsplit("/", 2)[-2:])
        return f"{file}:{code.co_firstlineno}"

    @property
    def label(self) -> tuple[str, str, str]:
        """What orders rules that nothing else orders."""
        return (self.rule.name, self.dist, self.place)

    def applies(self, architecture: str, platform: str) -> bool:
        """Whether the rule is for this model and machine."""
        rule = self.rule
        if self.architectures and architecture not in self.architectures:
            return False
        if rule.platforms and platform not in rule.platforms:
            return False
        if rule.architectures and rule.applies is not None:
            return architecture in rule.architectures or rule.applies(architecture)
        if rule.architectures:
            return architecture in rule.architectures
        return rule.applies is None or rule.applies(architecture)


def ordered(rules: Iterable[RegisteredRule]) -> list[RegisteredRule]:
    """All rules in the order in which they run."""
    stages: dict[str, list[RegisteredRule]] = {stage: [] for stage in STAGES}
    for registered in rules:
        if registered.rule.stage not in stages:
            raise ValueError(
                f"rule {registered.rule.name}: no stage {registered.rule.stage!r}; stages: {', '.join(STAGES)}"
            )
        stages[registered.rule.stage].append(registered)
    return [registered for stage in STAGES for registered in ordered_stage(stages[stage])]


def ordered_stage(rules: list[RegisteredRule]) -> list[RegisteredRule]:
    """One stage's rules in order. A cycle is cut at the same place every time; :func:`check_rules` reports it."""
    graph = StageGraph(sorted(rules, key=lambda registered: registered.label))
    return graph.order()


class StageGraph:
    """The order constraints of one stage. Nodes 0..n-1 are rules; further nodes stand for fields, so that edges stay few."""

    def __init__(self, rules: Sequence[RegisteredRule]) -> None:
        self.rules = rules
        self.soft: dict[int, list[int]] = {}
        self.hard: dict[int, list[int]] = {}
        self.cut: list[RegisteredRule] = []
        self.nodes = len(rules)
        self.by_name: dict[str, list[int]] = {}
        for index, registered in enumerate(rules):
            self.by_name.setdefault(registered.rule.name, []).append(index)
        self.link_fields()
        for index, registered in enumerate(rules):
            for name in registered.rule.after:
                for earlier in self.by_name.get(name, ()):
                    self.hard.setdefault(earlier, []).append(index)
            for name in registered.rule.before:
                for later in self.by_name.get(name, ()):
                    self.hard.setdefault(index, []).append(later)

    def link_fields(self) -> None:
        """Pure writers → node → reader-writers → node → pure readers, for each field that is both read and written."""
        writers: dict[str, list[int]] = {}
        readers: dict[str, list[int]] = {}
        for index, registered in enumerate(self.rules):
            for name in registered.rule.writes:
                writers.setdefault(name, []).append(index)
            for name in registered.rule.reads:
                readers.setdefault(name, []).append(index)
        for name in sorted(writers.keys() & readers.keys()):
            both = set(writers[name]) & set(readers[name])
            groups = (
                [index for index in writers[name] if index not in both],
                sorted(both),
                [index for index in readers[name] if index not in both],
            )
            filled = [group for group in groups if group]
            for earlier, later in pairwise(filled):
                middle = self.nodes
                self.nodes += 1
                for index in earlier:
                    self.soft.setdefault(index, []).append(middle)
                self.soft[middle] = list(later)

    def order(self) -> list[RegisteredRule]:
        """The rules in topological order, by name where free."""
        waiting_soft = [0] * self.nodes
        waiting_hard = [0] * self.nodes
        for edges, waiting in ((self.soft, waiting_soft), (self.hard, waiting_hard)):
            for targets in edges.values():
                for target in targets:
                    waiting[target] += 1
        placed = [False] * self.nodes
        free = [n for n in range(self.nodes) if not waiting_soft[n] and not waiting_hard[n]]
        heapq.heapify(free)
        result: list[RegisteredRule] = []
        left = len(self.rules)
        while left or free:
            if not free:
                stuck = self.choose(placed, waiting_hard)
                self.cut.append(self.rules[stuck])
                free.append(stuck)
            node = heapq.heappop(free)
            if placed[node]:
                continue
            placed[node] = True
            if node < len(self.rules):
                result.append(self.rules[node])
                left -= 1
            for edges, waiting in ((self.soft, waiting_soft), (self.hard, waiting_hard)):
                for target in edges.get(node, ()):
                    waiting[target] -= 1
                    if not waiting_soft[target] and not waiting_hard[target] and not placed[target]:
                        heapq.heappush(free, target)
        return result

    def choose(self, placed: list[bool], waiting_hard: list[int]) -> int:
        """Where a cycle is cut: a rule for which another declared that it waits, else the first by name.

        Rules under a ``before``/``after`` come first because those outweigh what reads and writes suggest.
        """
        candidates = [n for n in range(len(self.rules)) if not placed[n] and not waiting_hard[n]]
        if not candidates:
            return next(n for n in range(len(self.rules)) if not placed[n])
        return min(candidates, key=lambda n: (not any(not placed[t] for t in self.hard.get(n, ())), n))


def check_rules(rules: Iterable[RegisteredRule]) -> list[str]:
    """What is wrong with a set of rules, one line each; empty when all is well.

    Cycles that no declared order explains, names in ``after``/``before`` that no rule has or that another stage contradicts, and
    two rules of one stage that can act on the same model and machine and write one field without an order between them.
    """
    everything = list(rules)
    stage_of: dict[str, set[str]] = {}
    for registered in everything:
        stage_of.setdefault(registered.rule.name, set()).add(registered.rule.stage)
    problems: list[str] = []
    for registered in everything:
        problems += check_names(registered, stage_of)
    for stage in STAGES:
        members = sorted((r for r in everything if r.rule.stage == stage), key=lambda r: r.label)
        problems += check_stage(stage, members)
    return problems


def check_names(registered: RegisteredRule, stage_of: dict[str, set[str]]) -> list[str]:
    """Whether the names in ``after`` and ``before`` exist and can be obeyed."""
    problems = []
    rule = registered.rule
    if rule.stage not in STAGES:
        return [f"{rule.name} ({registered.place}): no stage {rule.stage!r}"]
    here = STAGES.index(rule.stage)
    for word, names in (("after", rule.after), ("before", rule.before)):
        for name in names:
            if name not in stage_of:
                problems.append(f"{rule.name} ({registered.place}): {word} names {name!r}, which no rule has")
            elif any(
                (STAGES.index(stage) > here if word == "after" else STAGES.index(stage) < here)
                for stage in stage_of[name]
            ):
                problems.append(f"{rule.name} ({registered.place}): {word} {name!r} contradicts the order of stages")
    return problems


def check_stage(stage: str, members: list[RegisteredRule]) -> list[str]:
    """Cycles and unordered writes inside one stage."""
    graph = StageGraph(members)
    graph.order()
    problems = [
        f"stage {stage}: {r.rule.name} ({r.place}) is part of a cycle of reads and writes; order it with after= or before="
        for r in graph.cut
        if not graph.hard.get(members.index(r))
    ]
    reach = reachable(graph)
    writers: dict[str, list[int]] = {}
    for index, registered in enumerate(members):
        for name in registered.rule.writes:
            writers.setdefault(name, []).append(index)
    for name, indexes in sorted(writers.items()):
        for position, first in enumerate(indexes):
            for second in indexes[position + 1 :]:
                if second in reach[first] or first in reach[second] or not can_meet(members[first], members[second]):
                    continue
                problems.append(
                    f"stage {stage}: {members[first].rule.name} and {members[second].rule.name} both write {name} "
                    "with no declared order"
                )
    return problems


def reachable(graph: StageGraph) -> list[set[int]]:
    """For each rule, the rules that come after it by declared order (``after``/``before``) or by reads and writes."""
    found: list[set[int]] = []
    for start in range(len(graph.rules)):
        seen: set[int] = set()
        stack = [start]
        while stack:
            node = stack.pop()
            for target in (*graph.soft.get(node, ()), *graph.hard.get(node, ())):
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        found.append({node for node in seen if node < len(graph.rules) and node != start})
    return found


def can_meet(first: RegisteredRule, second: RegisteredRule) -> bool:
    """Whether one model on one machine can have both rules act."""
    a, b = first.rule, second.rule
    if a.platforms and b.platforms and not set(a.platforms) & set(b.platforms):
        return False
    for one, other in ((first, second), (second, first)):
        names = one.rule.architectures or one.architectures
        if names and one.rule.applies is None:
            return any(other.applies(name, (*a.platforms, *b.platforms, "")[0]) or not_by_name(other) for name in names)
    return True


def not_by_name(registered: RegisteredRule) -> bool:
    """Whether a rule is for every model."""
    return not (registered.architectures or registered.rule.architectures or registered.rule.applies)
