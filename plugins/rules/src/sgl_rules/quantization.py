"""Which quantization a checkpoint is served with, and the refusals where checkpoint, request and machine disagree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule

from .asking import in_order
from .machine import is_apple, is_cpu, is_cuda, is_gfx95, is_npu, is_rocm

_EVERYWHERE = frozenset(
    {
        "auto-round",
        "auto-round-int8",
        "awq",
        "awq_marlin",
        "bitsandbytes",
        "blockwise_int8",
        "compressed-tensors",
        "fp8",
        "gguf",
        "gptq",
        "gptq_marlin",
        "humming",
        "modelopt",
        "modelopt_fp4",
        "modelopt_fp8",
        "modelopt_mixed",
        "modelslim",
        "moe_wna16",
        "mxfp8",
        "mxfp_w4a8",
        "nvfp4_online",
        "petit_nvfp4",
        "quark",
        "quark_int4fp8_moe",
        "quark_mxfp4",
        "w4afp8",
        "w8a8_fp8",
        "w8a8_int8",
    }
)
_ROCM = frozenset(
    {
        "auto-round",
        "auto-round-int8",
        "awq",
        "compressed-tensors",
        "compressed_tensors",
        "fp8",
        "gptq",
        "mxfp4",
        "mxfp8",
        "petit_nvfp4",
        "quark",
        "quark_int4fp8_moe",
        "quark_mxfp4",
        "w8a8_fp8",
    }
)
_READS_ALSO = {
    "modelopt_fp8": ("modelopt",),
    "modelopt_fp4": ("modelopt", "fp8"),
    "modelopt_mixed": ("modelopt",),
    "nvfp4_online": ("fp8", "modelopt_fp8"),
    "petit_nvfp4": ("modelopt",),
    "w8a8_int8": ("compressed-tensors", "compressed_tensors"),
    "w8a8_fp8": ("compressed-tensors", "compressed_tensors"),
    "auto-round-int8": ("compressed-tensors", "compressed_tensors"),
}
"""Methods that load checkpoints of another method."""

_REQUANTIZES = frozenset({"quark_mxfp4"})
"""Methods that quantize while loading whatever the checkpoint holds."""

_MARLIN_GROUPS = (-1, 32, 64, 128)
_DTYPES = frozenset({"auto", "half", "float16", "float", "float32", "bfloat16"})


def methods_on(facts: Facts) -> frozenset[str]:
    """The quantization methods that exist on a machine."""
    methods = _EVERYWHERE
    if is_cpu(facts) or is_cuda(facts) or is_gfx95(facts) or is_npu(facts):
        methods |= {"mxfp4"}
    if is_apple(facts):
        methods |= {"mlx_q4", "mlx_q8"}
    return methods


def served_method(asked: str | None, facts: Facts, model: ModelInfo) -> str | None:
    """The method that loads this checkpoint when ``asked`` was named (None: nothing was), None for plain weights."""
    asked = asked.lower() if asked else None
    if not model.quant_config:
        return asked
    return _converted(asked, facts, model) or asked or checkpoint_method(asked, model)


def checkpoint_method(asked: str | None, model: ModelInfo) -> str:
    """The checkpoint's own method; one that names none is taken to be what was asked for."""
    return str(model.quant_config.get("quant_method", asked or "")).lower()


def _converted(asked: str | None, facts: Facts, model: ModelInfo) -> str | None:
    """A better method for the same checkpoint, where one takes it over."""
    section = model.quant_config
    own = str(section.get("quant_method", "")).lower()
    if asked in _REQUANTIZES:
        return None
    if own in ("modelopt_fp8", "modelopt_fp4") and asked != "nvfp4_online":
        return own
    if own == "modelopt_mixed":
        return own
    if own == "awq" and is_cuda(facts) and asked in (None, "marlin", "awq_marlin") and _marlin_awq(section, facts):
        return "awq_marlin"
    if own == "gptq" and is_cuda(facts) and asked in (None, "marlin", "gptq_marlin") and _marlin_gptq(section, facts):
        return "gptq_marlin"
    if asked == "moe_wna16" and _wna16(section, facts):
        return "moe_wna16"
    if asked == "humming" and own != "mxfp4":
        return "humming"
    if is_apple(facts) and asked is None and "quant_method" not in section and section.get("group_size"):
        return {4: "mlx_q4", 8: "mlx_q8"}.get(section.get("bits", 0))
    return None


def _marlin_awq(section: Mapping[str, Any], facts: Facts) -> bool:
    known = all(section.get(key) is not None for key in ("bits", "group_size", "zero_point"))
    return known and section["bits"] in (4, 8) and section["group_size"] in _MARLIN_GROUPS and facts.arch >= 80


def _marlin_gptq(section: Mapping[str, Any], facts: Facts) -> bool:
    if section.get("checkpoint_format") == "marlin" or section.get("is_marlin_format"):
        return False
    known = all(section.get(key) is not None for key in ("bits", "group_size", "sym", "desc_act"))
    kind = (section.get("bits"), section.get("sym"))
    return known and kind in ((4, True), (8, True)) and section["group_size"] in _MARLIN_GROUPS and facts.arch >= 80


def _wna16(section: Mapping[str, Any], facts: Facts) -> bool:
    own, bits = section.get("quant_method"), section.get("bits")
    if own == "gptq":
        return not section.get("desc_act") and bits in (4, 8)
    return own == "awq" and bits == 4 and facts.arch >= 75


@rule(stage="sources", reads=("quantization", "dtype", "context_length"), after=("decode_cp_request",))
def checkpoint_agrees(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The checkpoint's format, the method asked for and the machine must fit together."""
    limit = view.context_length
    yield require(
        limit is None
        or not model.context_length
        or limit <= model.context_length
        or facts.env.get("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "").lower() in ("1", "true"),
        f"the model was trained for {model.context_length} tokens",
        fix="lower --context-length, or set SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1",
        fields=("context_length",),
    )
    yield require(str(view.dtype).lower() in _DTYPES, f"there is no dtype {view.dtype!r}", fields=("dtype",))
    asked = view.quantization.lower() if view.quantization else None
    if model.quant_config:
        yield require(
            asked != "moe_wna16" or not is_npu(facts),
            "the method asks for a GPU's capability, and an NPU has none",
            fields=("quantization",),
            kind="NotImplementedError",
        )
        own = checkpoint_method(asked, model)
        converted = _converted(asked, facts, model)
        method = converted or asked
        yield require(
            converted is not None
            or method in (None, own)
            or own in _READS_ALSO.get(str(method), ())
            or method in _REQUANTIZES,
            f"the checkpoint is quantized with {own}, which {method} does not load",
            fix="drop --quantization: the checkpoint says how it is quantized",
            fields=("quantization",),
        )
    method = served_method(asked, facts, model)
    if method is None:
        return
    yield require(
        method in methods_on(facts),
        f"no quantization method {method!r} exists on this platform",
        fix=f"known here: {', '.join(sorted(methods_on(facts)))}",
        fields=("quantization",),
    )
    yield require(
        not is_rocm(facts) or method in _ROCM,
        f"{method} has no kernels for AMD GPUs",
        fields=("quantization",),
    )


@rule(stage="sources", reads=("quantize_and_serve", "quantization"), before=("checkpoint_agrees",))
def quantize_first(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Quantizing while serving is not offered: export a checkpoint first."""
    if not view.quantize_and_serve:
        return
    offline = view.quantization in ("modelopt", "modelopt_fp8", "modelopt_fp4", "nvfp4_online", "modelopt_mixed")
    yield require(
        offline,
        "only ModelOpt methods quantize a whole checkpoint",
        fields=("quantize_and_serve", "quantization"),
    )
    yield require(
        False,
        "quantizing and serving in one go is not supported",
        fix="export the quantized checkpoint first, then serve it",
        fields=("quantize_and_serve",),
        kind="NotImplementedError",
    )


@rule(
    stage="features",
    reads=(
        "load_format",
        "custom_weight_loader",
        "remote_instance_weight_loader_backend",
        "remote_instance_weight_loader_seed_instance_ip",
        "remote_instance_weight_loader_seed_instance_service_port",
        "remote_instance_weight_loader_send_weights_group_ports",
        "speculative_algorithm",
        "weight_cache_mode",
    ),
    writes=("quantization", "load_format", "custom_weight_loader"),
    before=("encoder_roles",),
)
def weight_format(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """GGUF files carry their own quantization; loaders that need other servers fall back to files."""
    given = view.load_format
    if given in ("auto", "gguf") and model.load_format == "gguf":
        yield force("quantization", "gguf", "GGUF blocks are their own quantization")
        yield force("load_format", "gguf", "the model is a GGUF file")
    elif given == "auto" and model.load_format == "mistral":
        yield force("load_format", "mistral", "the weights are in Mistral's own consolidated files")
    if view.custom_weight_loader is None:
        yield force("custom_weight_loader", [], "no custom loader")
    if given == "remote_instance" and not _peer_known(view):
        yield force("load_format", "auto", "no running instance to load from was named")
    yield require(given != "ipc_cache", "this format is set by the weight cache", fields=("load_format",))
    yield require(
        view.weight_cache_mode == "off" or view.speculative_algorithm is None,
        "the weight cache does not hold a draft model",
        fields=("weight_cache_mode", "speculative_algorithm"),
    )


def _peer_known(view: View) -> bool:
    backend = view.remote_instance_weight_loader_backend
    address = (
        view.remote_instance_weight_loader_seed_instance_ip,
        view.remote_instance_weight_loader_seed_instance_service_port,
    )
    if backend != "modelexpress" and None in address:
        return False
    if backend == "nccl":
        return bool(view.remote_instance_weight_loader_send_weights_group_ports is not None)
    return bool(backend != "transfer_engine")


RULES = in_order(quantize_first, checkpoint_agrees, weight_format)
