"""What it costs to resolve a configuration: a large model on a large machine with our rules, and with many dummy rules.

    python tests/bench/resolution.py

CPU time of the best of many runs, so that neighbours on the machine do not count.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from sgl_core.api import Facts, ModelInfo, Rule, suggest
from sgl_core.config import ServerArgs, resolve
from sgl_core.config.explain_model import model_info_of
from sgl_core.config.machine_profiles import load_facts
from sgl_core.registry import Registries

FEW, MANY = 250, 1000


def best(run: Callable[[], object], times: int) -> float:
    """CPU seconds of the fastest run."""
    found = float("inf")
    for _ in range(times):
        begun = time.process_time()
        run()
        found = min(found, time.process_time() - begun)
    return found


def dummies(count: int) -> list[Rule]:
    """Rules that read and would write the same field."""

    def act(view: Any, facts: Facts, model: ModelInfo) -> Iterator[Any]:
        if view.page_size is None:
            yield suggest("page_size", 16, because="a benchmark")

    return [
        Rule(name=f"rule{number}", function=act, stage="memory", reads=("page_size",), writes=("page_size",))
        for number in range(count)
    ]


def main() -> int:
    registries = Registries.discover()
    model, facts = model_info_of("DeepseekV3ForCausalLM", registries), load_facts("b200x8")
    args = ServerArgs.of(model_path="DeepseekV3ForCausalLM", tp_size=8)
    real = best(lambda: resolve(args, facts, model, registries), 60)
    costs = {}
    for count in (FEW, MANY):
        rules = dummies(count)
        plain = (ServerArgs.of(), Facts(platform="cpu"), ModelInfo(architecture="X"))
        costs[count] = best(lambda rules=rules, plain=plain: resolve(*plain, rules=rules), 15)  # type: ignore[misc]
    growth = costs[MANY] / costs[FEW] / (MANY / FEW)
    print(
        json.dumps(
            {
                "deepseek_v3_b200_ms": round(real * 1e3, 3),
                "rules_1000_ms": round(costs[MANY] * 1e3, 3),
                "growth": round(growth, 3),
                "torch_imported": "torch" in sys.modules,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
