"""The table of registries: which exist, the spec class of their entries, and what usually fills them."""

from __future__ import annotations

from dataclasses import dataclass

from sgl_core.api.specs import (
    AttentionSpec,
    CommandSpec,
    GrammarSpec,
    LoadFormatSpec,
    ModelSourceSpec,
    ModelSpec,
    MoeRunnerSpec,
    OpSpec,
    ParserSpec,
    PlatformSpec,
    QuantizationSpec,
    RuleSetSpec,
    Spec,
)


@dataclass(frozen=True, slots=True)
class RegistryInfo:
    """One registry. Its entry-point group is ``sgl.<name>.v<version>``; ``install`` is what to install when it is empty."""

    name: str
    spec_class: type[Spec]
    help: str
    install: str = ""
    version: int = 1

    @property
    def group(self) -> str:
        return f"sgl.{self.name}.v{self.version}"


_PLATFORM_PACKAGES = "sgl-cpu (or the platform package of your device)"

TABLE: tuple[RegistryInfo, ...] = (
    RegistryInfo("platforms", PlatformSpec, "devices that can run a model", _PLATFORM_PACKAGES),
    RegistryInfo("models", ModelSpec, "model architectures, by their Hugging Face name", "sgl-models"),
    RegistryInfo("attention", AttentionSpec, "attention backends", "sgl-torch"),
    RegistryInfo("mm_attention", Spec, "attention backends of vision towers", "sgl-torch"),
    RegistryInfo("linear_attention", Spec, "kernels of linear attention and state-space layers"),
    RegistryInfo("moe_runners", MoeRunnerSpec, "mixture-of-experts runners", "sgl-torch"),
    RegistryInfo("moe_dispatchers", Spec, "token exchange between expert-parallel ranks"),
    RegistryInfo(
        "quantization", QuantizationSpec, "quantization methods, by the checkpoint's quant_method", "sgl-quant"
    ),
    RegistryInfo("gemm_fp8", Spec, "FP8 matrix multiplication backends"),
    RegistryInfo("gemm_fp4", Spec, "FP4 matrix multiplication backends"),
    RegistryInfo("gemm_bf16", Spec, "BF16 matrix multiplication backends"),
    RegistryInfo("ops", OpSpec, "implementations of single operations", "sgl-ops"),
    RegistryInfo("rules", RuleSetSpec, "sets of configuration rules", "sgl-rules"),
    RegistryInfo("load_formats", LoadFormatSpec, "checkpoint formats", "sgl-torch"),
    RegistryInfo("samplers", Spec, "sampling backends", "sgl-torch"),
    RegistryInfo("logit_processors", Spec, "code that edits logits, for requests that name it", "sgl-torch"),
    RegistryInfo("grammars", GrammarSpec, "constrained-decoding backends", "sgl-grammar"),
    RegistryInfo("tool_parsers", ParserSpec, "tool-call parsers", "sgl-parsers"),
    RegistryInfo("reasoning_parsers", ParserSpec, "reasoning parsers", "sgl-parsers"),
    RegistryInfo("chat_templates", Spec, "named chat templates", "sgl-parsers"),
    RegistryInfo("eviction_policies", Spec, "which cached prefix goes first"),
    RegistryInfo("schedule_policies", Spec, "which waiting request goes first"),
    RegistryInfo("prefix_caches", Spec, "prefix cache implementations"),
    RegistryInfo("speculative", Spec, "speculative decoding algorithms"),
    RegistryInfo("lora_backends", Spec, "LoRA kernels", "sgl-torch"),
    RegistryInfo("kv_stores", Spec, "storage backends of the hierarchical cache"),
    RegistryInfo("kv_transports", Spec, "KV transfer between prefill and decode servers"),
    RegistryInfo("rl_on_policy_targets", Spec, "training systems whose numerics serving can match"),
    RegistryInfo("model_sources", ModelSourceSpec, "where a MODEL argument may come from"),
    RegistryInfo("http_servers", Spec, "servers that speak HTTP for the application"),
    RegistryInfo("commands", CommandSpec, "subcommands of sgl"),
    RegistryInfo("hooks", Spec, "plugins that receive one-to-many events"),
)
"""Every registry this version reads, in the order in which lists show them."""
