"""Prefill-decode and encoder disaggregation: what each role keeps, and what the roles exclude."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, set_env, suggest

from .asking import fill, in_order
from .machine import switch

_ENCODER_ROLE_ARCHITECTURES = frozenset(
    {
        "Dots3NoteForCausalLM",
        "InternS2PreviewForConditionalGeneration",
        "KimiK25ForConditionalGeneration",
        "KimiK3ForConditionalGeneration",
        "KimiVLForConditionalGeneration",
        "MiMoV2ForCausalLM",
        "Qwen2AudioForConditionalGeneration",
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5OmniForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3OmniMoeForConditionalGeneration",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
    }
)
_LANGUAGE_ONLY_ARCHITECTURES = frozenset(
    {
        "Cosmos3EdgeForConditionalGeneration",
        "Cosmos3ForConditionalGeneration",
        "MuseGlimmerForConditionalGeneration",
    }
)
_MEDIA_SWITCHES = (
    "encoder_only",
    "language_only",
    "enable_prefix_mm_cache",
    "enable_broadcast_mm_inputs_process",
    "mm_enable_dp_encoder",
)


@rule(
    stage="sources",
    reads=(
        "disaggregation_mode",
        "disaggregation_transfer_backend",
        "dcp_size",
        "max_running_requests",
        "dp_size",
        "disaggregation_bootstrap_port",
        "disaggregation_decode_enable_radix_cache",
        "disaggregation_decode_extra_slots",
        "enable_hierarchical_cache",
        "enable_hisparse",
        "port",
        "speculative_algorithm",
    ),
    writes=(
        "disaggregation_transfer_backend",
        "disaggregation_ib_device",
        "disable_radix_cache",
        "disaggregation_decode_extra_slots",
        "disaggregation_bootstrap_port",
    ),
    after=("missing_values",),
)
def prefill_decode_roles(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """What a prefill or decode server changes: caches, spare slots, transfer."""
    transfer, mode = view.disaggregation_transfer_backend, view.disaggregation_mode
    if transfer == "mooncake_tcp":
        transfer = "mooncake"
        yield set_env("MC_FORCE_TCP", "1", "mooncake over TCP")
        yield force("disaggregation_transfer_backend", transfer, "TCP is a mode of mooncake")
        yield force("disaggregation_ib_device", None, "no InfiniBand under TCP")
    if mode == "decode":
        yield from _decode_role(view, transfer)
    elif mode == "prefill":
        yield require(
            transfer != "fake",
            "a prefill server has real pages to send",
            fields=("disaggregation_transfer_backend",),
            kind="AssertionError",
        )
        if switch(facts, "SGLANG_RUST_SERVER") and view.disaggregation_bootstrap_port != view.port:
            yield require(
                not view.explicit("disaggregation_bootstrap_port"),
                "the native front serves the bootstrap registry on the API port",
                fix="drop --disaggregation-bootstrap-port",
                fields=("disaggregation_bootstrap_port", "port"),
            )
            yield suggest("disaggregation_bootstrap_port", view.port, "the registry shares the API port")
    yield require(
        mode not in ("prefill", "decode")
        or transfer in ("mooncake", "nixl")
        or not switch(facts, "SGLANG_DISAGG_STAGING_BUFFER"),
        "the staging buffer exists for mooncake and nixl only",
        fields=("disaggregation_transfer_backend",),
    )


def _decode_role(view: View, transfer: str) -> Iterator[Declaration]:
    radix = view.disaggregation_decode_enable_radix_cache
    if view.dcp_size > 1:
        yield require(
            transfer in ("mooncake", "nixl", "fake"),
            "decode context parallelism transfers through mooncake or nixl",
            fields=("dcp_size", "disaggregation_transfer_backend"),
        )
        for name in ("disaggregation_decode_enable_radix_cache", "enable_hierarchical_cache"):
            yield require(
                not getattr(view, name),
                "decode context parallelism keeps a chunk cache only",
                fields=("dcp_size", name),
            )
    if radix:
        for name, clash in (
            ("enable_hisparse", bool(view.enable_hisparse)),
            ("disaggregation_transfer_backend", transfer == "fake"),
            ("speculative_algorithm", view.speculative_algorithm is not None),
        ):
            yield require(
                not clash,
                "the prefix cache of a decode server does not work with this",
                fields=("disaggregation_decode_enable_radix_cache", name),
            )
    yield force(
        "disable_radix_cache",
        not radix,
        "a decode server receives whole prefixes" if not radix else "the decode server's prefix cache was asked for",
    )
    if view.disaggregation_decode_extra_slots is None:
        slots = 0
        if view.max_running_requests is not None:
            per_worker = view.max_running_requests // max(1, view.dp_size)
            slots = per_worker * 2 if per_worker <= 32 else 0
        yield suggest(
            "disaggregation_decode_extra_slots",
            slots,
            "small decode servers keep two waiting slots per running request, others none",
        )


@rule(stage="parallel", reads=("disaggregation_mode", "load_balance_method"), writes=("load_balance_method",))
def load_balance(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Prefill servers follow the bootstrap room, all others take turns."""
    mode = view.disaggregation_mode
    yield require(mode in ("null", "prefill", "decode"), f"there is no role {mode!r}", fields=("disaggregation_mode",))
    if view.load_balance_method == "auto":
        prefill = mode == "prefill"
        yield fill(
            view,
            "load_balance_method",
            "follow_bootstrap_room" if prefill else "round_robin",
            "both ends of a transfer must meet at one rank" if prefill else "replicas are equal: take turns",
        )


@rule(
    stage="features",
    reads=(
        "encoder_only",
        "language_only",
        "language_model_only",
        "disaggregation_mode",
        "encoder_transfer_backend",
        "enable_broadcast_mm_inputs_process",
        "enable_prefix_mm_cache",
        "mm_enable_dp_encoder",
        "tp_size",
    ),
    writes=("encoder_transfer_backend",),
)
def encoder_roles(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Encoder-only and language-only servers: which models have them, and how embeddings travel."""
    if view.language_model_only:
        for name in _MEDIA_SWITCHES:
            yield require(
                not getattr(view, name), "the media encoder is not loaded", fields=("language_model_only", name)
            )
        yield require(
            view.disaggregation_mode == "null",
            "serving the language model alone is for single servers",
            fields=("language_model_only", "disaggregation_mode"),
        )
        yield require(
            model.architecture in _LANGUAGE_ONLY_ARCHITECTURES,
            f"{model.architecture} cannot be loaded without its media encoder",
            fields=("language_model_only",),
        )
    yield require(
        view.encoder_only or not view.enable_prefix_mm_cache,
        "the media prefix cache lives on encoder servers",
        fix="add --encoder-only",
        fields=("enable_prefix_mm_cache",),
    )
    yield require(
        not (view.encoder_only and view.language_only),
        "one server cannot be encoder only and language only",
        fields=("encoder_only", "language_only"),
    )
    yield require(
        not view.encoder_only or view.disaggregation_mode == "null",
        "an encoder server has no prefill or decode role",
        fields=("encoder_only", "disaggregation_mode"),
    )
    if view.encoder_transfer_backend == "auto":
        many = model.architecture == "KimiK3ForConditionalGeneration" and view.tp_size > 1
        yield fill(
            view,
            "encoder_transfer_backend",
            "zmq_to_tokenizer" if many else "zmq_to_scheduler",
            "tensor-parallel Kimi K3 takes its embeddings at the tokenizer"
            if many
            else "embeddings go straight to the scheduler",
        )
    yield require(
        not (view.encoder_only or view.language_only) or model.architecture in _ENCODER_ROLE_ARCHITECTURES,
        f"{model.architecture} has no separate encoder server",
        fields=("encoder_only", "language_only"),
    )


@rule(
    stage="features",
    reads=(
        "disaggregation_ib_device",
        "mooncake_ib_device",
        "disaggregation_mode",
        "disaggregation_transfer_backend",
        "encoder_transfer_backend",
        "elastic_ep_backend",
    ),
    after=("encoder_roles",),
)
def infiniband_devices(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """InfiniBand devices can be named only on a machine that has some."""
    split = view.disaggregation_mode in ("prefill", "decode") and view.disaggregation_transfer_backend == "mooncake"
    for name, used in (
        ("disaggregation_ib_device", split or view.encoder_transfer_backend == "mooncake"),
        ("mooncake_ib_device", view.elastic_ep_backend == "mooncake"),
    ):
        named = getattr(view, name)
        if not used or named is None:
            continue
        yield require(bool(str(named).strip()), "no InfiniBand device is named", fields=(name,))
        yield require(
            facts.has("infiniband"),
            "this machine has no InfiniBand device",
            fix=f"drop --{name.replace('_', '-')}, or install the InfiniBand drivers",
            fields=(name,),
            kind="RuntimeError",
        )


RULES = in_order(prefill_decode_roles, load_balance, encoder_roles, infiniband_devices)
