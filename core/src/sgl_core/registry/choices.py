"""The extension lists of the reference system as registry entries: which list is which registry, and an adder for each.

A vendor that only needs a legal value writes one entry point to ``ChoiceSpec(name="...")``; a program that embeds the engine
calls ``add_attention_backend_choices(registries, ["..."])``. Both are seen by help, validation and queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .errors import RegistryError
from .registries import Registries


@dataclass(frozen=True, slots=True)
class ChoiceList:
    """One list: the registry whose names it is, and the flag that its members have where it is a part of the registry."""

    registry: str
    flag: str = ""
    adder: str = ""


CHOICE_LISTS: dict[str, ChoiceList] = {
    "LOAD_FORMAT_CHOICES": ChoiceList("load_formats", "", "add_load_format_choices"),
    "QUANTIZATION_CHOICES": ChoiceList("quantization", "", "add_quantization_method_choices"),
    "ATTENTION_BACKEND_CHOICES": ChoiceList("attention", "", "add_attention_backend_choices"),
    "DRAFT_ATTENTION_BACKEND_CHOICES": ChoiceList("attention", "draft", "add_draft_attention_backend_choices"),
    "CHUNKED_PREFIX_CACHE_SUPPORTED_ATTENTION_BACKENDS": ChoiceList(
        "attention", "chunked_prefix", "add_chunked_prefix_cache_attention_backend"
    ),
    "DETERMINISTIC_ATTENTION_BACKEND_CHOICES": ChoiceList(
        "attention", "deterministic", "add_deterministic_attention_backend_choices"
    ),
    "RADIX_SUPPORTED_DETERMINISTIC_ATTENTION_BACKEND": ChoiceList(
        "attention", "radix_deterministic", "add_radix_supported_deterministic_attention_backend_choices"
    ),
    "DISAGG_TRANSFER_BACKEND_CHOICES": ChoiceList("kv_transports", "", "add_disagg_transfer_backend_choices"),
    "GRAMMAR_BACKEND_CHOICES": ChoiceList("grammars", "", "add_grammar_backend_choices"),
    "SAMPLING_BACKEND_CHOICES": ChoiceList("samplers"),
    "MOE_RUNNER_BACKEND_CHOICES": ChoiceList("moe_runners", "", "add_moe_runner_backend_choices"),
    "MXFP8_MOE_RUNNER_BACKEND_CHOICES": ChoiceList("moe_runners", "mxfp8", "add_mxfp8_moe_runner_backend_choices"),
    "FP8_GEMM_RUNNER_BACKEND_CHOICES": ChoiceList("gemm_fp8", "", "add_fp8_gemm_runner_backend_choices"),
    "FP4_GEMM_RUNNER_BACKEND_CHOICES": ChoiceList("gemm_fp4", "", "add_fp4_gemm_runner_backend_choices"),
    "RADIX_EVICTION_POLICY_CHOICES": ChoiceList("eviction_policies", "", "add_radix_eviction_policy_choices"),
    "RL_ON_POLICY_TARGET_CHOICES": ChoiceList("rl_on_policy_targets", "", "add_rl_on_policy_target_choices"),
    "LINEAR_ATTN_KERNEL_BACKEND_CHOICES": ChoiceList("linear_attention", "", "add_linear_attn_kernel_backend_choices"),
}
"""The reference system's list names. Words such as ``auto`` that stand in a list belong to the field, not to a registry."""


def add_choices(
    registries: Registries, registry: str, names: Iterable[str], dist: str = "embedded", flag: str = ""
) -> None:
    """Make names legal values of a registry. With ``flag``, names that exist get the capability instead.

    Raises RegistryError for a name that is empty or has spaces, DuplicateNames (without ``flag``) for one that is taken.
    """
    target = registries[registry]
    for name in [names] if isinstance(names, str) else list(names):
        if not name or name != name.strip() or " " in name:
            raise RegistryError(f"{registry}: {name!r} cannot be a choice; a name has no spaces", registry=registry)
        if flag and name in target:
            target.add_flag(name, flag)
        else:
            flags = frozenset({flag}) if flag else frozenset()
            target.add(target.info.spec_class(name=name, flags=flags), dist)


Adder = Callable[..., None]
"""``adder(registries, names, *, dist="embedded")``; ``names`` is a name or several."""


def _adder(list_name: str) -> Adder:
    choice_list = CHOICE_LISTS[list_name]

    def add(registries: Registries, names: str | Iterable[str], *, dist: str = "embedded") -> None:
        add_choices(registries, choice_list.registry, names, dist, choice_list.flag)

    add.__name__ = add.__qualname__ = choice_list.adder
    add.__doc__ = f"Extend {list_name} (registry {choice_list.registry})."
    return add


add_load_format_choices = _adder("LOAD_FORMAT_CHOICES")
add_quantization_method_choices = _adder("QUANTIZATION_CHOICES")
add_attention_backend_choices = _adder("ATTENTION_BACKEND_CHOICES")
add_draft_attention_backend_choices = _adder("DRAFT_ATTENTION_BACKEND_CHOICES")
add_chunked_prefix_cache_attention_backend = _adder("CHUNKED_PREFIX_CACHE_SUPPORTED_ATTENTION_BACKENDS")
add_deterministic_attention_backend_choices = _adder("DETERMINISTIC_ATTENTION_BACKEND_CHOICES")
add_radix_supported_deterministic_attention_backend_choices = _adder("RADIX_SUPPORTED_DETERMINISTIC_ATTENTION_BACKEND")
add_disagg_transfer_backend_choices = _adder("DISAGG_TRANSFER_BACKEND_CHOICES")
add_grammar_backend_choices = _adder("GRAMMAR_BACKEND_CHOICES")
add_moe_runner_backend_choices = _adder("MOE_RUNNER_BACKEND_CHOICES")
add_mxfp8_moe_runner_backend_choices = _adder("MXFP8_MOE_RUNNER_BACKEND_CHOICES")
add_fp8_gemm_runner_backend_choices = _adder("FP8_GEMM_RUNNER_BACKEND_CHOICES")
add_fp4_gemm_runner_backend_choices = _adder("FP4_GEMM_RUNNER_BACKEND_CHOICES")
add_radix_eviction_policy_choices = _adder("RADIX_EVICTION_POLICY_CHOICES")
add_rl_on_policy_target_choices = _adder("RL_ON_POLICY_TARGET_CHOICES")
add_linear_attn_kernel_backend_choices = _adder("LINEAR_ATTN_KERNEL_BACKEND_CHOICES")
