"""Table-driven tests of configuration rules: machines, models, and what a rule answers for given settings.

CASES = [
    RuleCase(prefer_fast, {"attention_backend": "fast"}, machine="sm100"),
    RuleCase(prefer_fast, {}, machine="sm100", attention_backend="triton"),       # does not act
    RuleCase(fast_limits, "ValueError", attention_backend="fast", page_size=3),   # refuses
]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Require, Rule, SetEnv
from sgl_core.config.fields import fields
from sgl_core.config.model_info import model_info_from_config
from sgl_core.registry import Registries

from .views import DefaultsView


def _nvidia(arch: int, memory_gib: int, driver: str = "580.95.5", *features: str) -> Facts:
    return Facts(
        platform="cuda",
        device="cuda",
        arch=arch,
        device_count=8,
        device_memory_mib=memory_gib * 1024.0,
        cuda_version="13.0",
        driver_version=driver,
        libraries={"flashinfer": "0.6", "triton_kernels": "1.0", "deep_gemm": "2.0"},
        features=frozenset({"flashinfer_mla_dcp", *features}),
    )


def _other(platform: str, memory_gib: int | None, *features: str, device: str = "", arch: int = 0) -> Facts:
    return Facts(
        platform=platform,
        device=device or platform,
        arch=arch,
        device_memory_mib=memory_gib * 1024.0 if memory_gib else None,
        features=frozenset(features),
        libraries={"triton_kernels": "1.0"} if platform in ("rocm", "musa") else {},
    )


MACHINES: dict[str, Facts] = {
    "sm80": _nvidia(80, 80),
    "sm90": _nvidia(90, 80),
    "sm100": _nvidia(100, 180),
    "sm103": _nvidia(103, 270, "595.58.3"),
    "gb200": _nvidia(100, 185, "595.58.3", "mnnvl_fabric"),
    "sm120": _nvidia(120, 32),
    "rocm": _other("rocm", 192, "aiter_preshuffle_paged_mqa", device="cuda", arch=94),
    "gfx95": _other("rocm", 288, device="cuda", arch=95),
    "cpu": _other("cpu", 256),
    "amx": _other("cpu", 256, "amx"),
    "arm": _other("cpu", 256, "arm64"),
    "xpu": _other("xpu", 64, "xmx"),
    "npu": _other("npu", 64),
    "mps": _other("mps", None),
    "mlx": _other("mps", None, "mlx"),
    "musa": _other("musa", 80, arch=31),
    "hpu": _other("hpu", 96),
}
"""Small machines to test rules on; ``rocm`` has the preshuffled paged-MQA kernel, ``gfx95`` has not."""

_PLAIN = {
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "num_hidden_layers": 8,
    "max_position_embeddings": 32768,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
}


class StandingView(DefaultsView):
    """User settings with decisions of earlier rules laid over."""

    def __init__(self, registries: Registries, decided: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        super().__init__(registries, **settings)
        self._decided = decided

    def __getattr__(self, field: str) -> Any:
        if field in self._decided:
            return self._decided[field]
        return self.given(field) if field in fields() else super().__getattr__(field)


class RuleCase:
    """One row: a rule, what it answers, and for which machine, model, environment and settings.

    ``expected`` is the mapping of decided fields (empty: the rule does not act) or the kind of the refusal. Variables that
    the rule asks for are looked at only where ``expected_env`` is given. Settings count as the user's; ``decided`` holds
    what earlier rules decided.
    """

    def __init__(
        self,
        rule: Rule,
        expected: Mapping[str, Any] | str,
        *,
        machine: str | Facts = "sm90",
        model: str | ModelInfo = "LlamaForCausalLM",
        config: Mapping[str, Any] | None = None,
        draft: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        expected_env: Mapping[str, str] | None = None,
        decided: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.rule = rule
        self.expected = expected
        self.expected_env = expected_env
        facts = MACHINES[machine] if isinstance(machine, str) else machine
        self.facts = replace(facts, env={**facts.env, **(env or {})})
        self.model = (
            model_info_from_config({**_PLAIN, "architectures": [model], **(config or {})}, draft_hf_config=draft)
            if isinstance(model, str)
            else model
        )
        self.decided = decided or {}
        self.settings = {"model_path": "models/m", "device": facts.device, **settings}

    @property
    def acts(self) -> bool:
        """Whether the rule is expected to decide, refuse or ask for a variable."""
        return bool(self.expected) or bool(self.expected_env)

    def __repr__(self) -> str:
        given = {**self.settings, **self.decided}
        words = [f"{name}={str(value)[:24]}" for name, value in given.items() if name not in ("model_path", "device")]
        return (
            f"{self.rule.name}-{self.model.architecture}-{self.facts.platform}{self.facts.arch or ''}-{','.join(words)}"
        )

    def check(self, registries: Registries) -> None:
        """Ask the rule twice; assert that it answers what is expected, and the same both times."""
        first, env = self._ask(registries)
        assert (first, env) == self._ask(registries), f"{self.rule.name} answers differently the second time"
        assert first == self.expected, f"{self!r}: {first} instead of {self.expected}"
        if self.expected_env is not None:
            assert env == self.expected_env, f"{self!r}: asks for {env} instead of {self.expected_env}"

    def view(self, registries: Registries) -> StandingView:
        """The configuration as the rule sees it."""
        return StandingView(registries, self.decided, self.settings)

    def _ask(self, registries: Registries) -> tuple[dict[str, Any] | str, dict[str, str]]:
        decided: dict[str, Any] = {}
        env: dict[str, str] = {}
        for answer in self.rule.function(self.view(registries), self.facts, self.model):
            if isinstance(answer, Require):
                assert answer.because, f"{self.rule.name} refuses without a reason"
                if not answer.condition:
                    return answer.kind, {}
            elif isinstance(answer, SetEnv):
                env[answer.name] = answer.value
            else:
                assert answer.because, f"{self.rule.name} decides {answer.field} without a reason"
                assert answer.field in self.rule.writes, f"{self.rule.name} does not announce {answer.field}"
                decided[answer.field] = answer.value
        return decided, env
