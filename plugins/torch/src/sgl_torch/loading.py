"""From a plan to a ready ModelRunner: ops bound, model built, weights in, KV pool sized, attention backend made."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from sgl_core.api import ModelInfo
from sgl_core.api.checkpoint import describe
from sgl_core.api.worker import Capacity, ProgressSink

from .attention.base import AttentionContext
from .context import LayerContext
from .dtypes import FP8_DTYPES, compute_dtype, dtype_name, kv_dtype
from .exactness import rows_are_exact
from .host_memory import available_memory, own_memory, total_memory
from .kv_pool import KVPool, bytes_per_token
from .layers import Attention
from .loaders import iterate
from .memory import MemoryBudget, kv_size
from .model_runner import ModelRunner
from .ops import OpContext, Ops, WeightPart, bind
from .settings import RuntimeSettings
from .weights import weight_slots

if TYPE_CHECKING:
    from sgl_core.registry import Registries

log = logging.getLogger("sgl_torch")


@dataclass(slots=True, kw_only=True)
class Loaded:
    """What loading made."""

    runner: ModelRunner
    capacity: Capacity
    model: nn.Module
    dtype: torch.dtype


def load(
    info: ModelInfo,
    settings: RuntimeSettings,
    registries: Registries,
    progress: ProgressSink,
    weights: Iterable[tuple[str, WeightPart]] | None = None,
    shared: dict[str, Any] | None = None,
) -> Loaded:
    """Load the model of ``info``, from its files unless ``weights`` are given; ``shared`` is ``OpContext.shared``. Raises what went wrong with a message for the operator; nothing is half loaded then."""
    device = torch.device(settings.device)
    dtype = compute_dtype(settings.dtype, info.dtype, fast_dtypes(settings))
    context_length = int(settings.context_length or info.context_length)
    op_context = OpContext(
        device=device,
        dtype=dtype,
        threads=settings.threads,
        features=settings.features,
        shared={} if shared is None else shared,
    )
    ops = bind(registries, op_context, settings.platform)
    context = LayerContext(
        ops=ops,
        dtype=dtype,
        device=device,
        context_length=context_length,
        quant=_quantization(info, settings, registries),
    )
    with torch.inference_mode():
        model = registries.models.load(info.architecture)(info, context)
        before = own_memory()
        if weights is None:
            weights = checkpoint(info, settings, registries, model, dtype)
        fill(model, weights, progress)
        weight_bytes = max(weights_size(model), own_memory() - before)
        pool, pages, kv_note = _kv_pool(model, settings, context_length, dtype, device, weight_bytes)
        attention = _attention(pool, settings, context_length, op_context, registries)
    runner = ModelRunner(
        model=model,
        ops=ops,
        pool=pool,
        attention=attention,
        page_size=settings.page_size,
        max_requests=settings.max_requests,
        context_length=context_length,
        device=device,
    )
    capacity = Capacity(
        num_pages=pages,
        page_size=settings.page_size,
        max_requests=settings.max_requests,
        context_length=context_length,
        vocab_size=info.vocab_size,
        kv_bytes_per_token=_bytes_per_token(model, pool.dtype),
        weight_bytes=weight_bytes,
        sliding_window=_common_window(model),
        notes=(
            f"weights: {dtype_name(dtype)}, {weight_bytes / (1 << 30):.2f} GiB",
            kv_note,
            *_kv_scale_notes(model, pool),
            f"attention: {settings.attention_backend if pool.k else 'in both directions, by torch'}",
            *_op_notes(ops),
            *_exactness_notes(ops, attention, dtype, device),
        ),
    )
    return Loaded(runner=runner, capacity=capacity, model=model, dtype=dtype)


def fast_dtypes(settings: RuntimeSettings) -> frozenset[str]:
    """The 16-bit dtypes in which this device computes fast."""
    if settings.platform != "cpu":
        return frozenset({"float16", "bfloat16"})
    bf16 = {"amx_bf16", "avx512_bf16", "bf16"} & settings.features
    return frozenset({"bfloat16"}) if bf16 else frozenset()


def checkpoint(
    info: ModelInfo, settings: RuntimeSettings, registries: Registries, model: nn.Module, dtype: torch.dtype
) -> Iterable[tuple[str, WeightPart]]:
    """The checkpoint's tensors, whatever its format; the format ``dummy`` invents those that the model wants."""
    wanted = {
        name: slot.shape
        for name, slot in weight_slots(model).items()
        if slot.shape is not None and not slot.optional and not slot.ignored
    }
    files = describe(Path(info.path))
    return iterate(files, settings.load_format, registries=registries, expected=wanted, dtype=dtype)


def fill(model: Any, weights: Iterable[tuple[str, WeightPart]], progress: ProgressSink) -> None:
    """Load ``weights`` into ``model``, reporting each tensor."""
    model.load_weights(weights, progress=lambda done, total: progress("weights", done, total))
    log.info("weights are loaded")


def weights_size(model: nn.Module) -> int:
    """Bytes of the tensors a model holds, each storage once; a packed form counts where it has ``storages()``, address to bytes."""
    storages: dict[int, int] = {}

    def note(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            storages[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        elif hasattr(value, "storages"):
            storages.update(value.storages())

    for module in model.modules():
        for owner in (module, getattr(module, "method", None)):
            for value in vars(owner).values() if owner is not None else ():
                note(value)
        for buffer in module.buffers(recurse=False):
            note(buffer)
    return sum(storages.values())


def attention_layers(model: nn.Module) -> list[Attention]:
    """The attention layers in the order of their ids. Raises ValueError when ids are missing or double."""
    layers = sorted((m for m in model.modules() if isinstance(m, Attention)), key=lambda layer: layer.layer_id)
    if [layer.layer_id for layer in layers] != list(range(len(layers))):
        raise ValueError("the attention layers of a model must be numbered 0, 1, 2 ...")
    return layers


def _bytes_per_token(model: nn.Module, dtype: torch.dtype) -> int:
    return sum(bytes_per_token(1, a.num_kv_heads, a.head_dim, dtype) for a in attention_layers(model))


def _common_window(model: nn.Module) -> int | None:
    """The window that every layer has; None where one layer sees everything."""
    windows = {layer.window for layer in attention_layers(model)}
    return windows.pop() if len(windows) == 1 else None


def _kv_pool(
    model: nn.Module,
    settings: RuntimeSettings,
    context_length: int,
    dtype: torch.dtype,
    device: torch.device,
    weight_bytes: int,
) -> tuple[KVPool, int, str]:
    storage = kv_dtype(settings.kv_cache_dtype, dtype)
    layers = attention_layers(model)
    size = kv_size(
        MemoryBudget(
            total=total_memory(),
            available=available_memory(),
            weights=weight_bytes,
            fraction=settings.mem_fraction_static,
        ),
        bytes_per_token=_bytes_per_token(model, storage),
        page_size=settings.page_size,
        context_length=context_length,
        max_requests=settings.max_requests,
        max_total_tokens=settings.max_total_tokens,
    )
    pool = KVPool(
        num_layers=len(layers),
        num_slots=size.num_pages * settings.page_size,
        num_kv_heads=layers[0].num_kv_heads if layers else 0,
        head_dim=layers[0].head_dim if layers else 0,
        dtype=storage,
        device=device,
    )
    note = f"{size.note}, {dtype_name(storage)}" if layers else "KV cache: none, each prompt is read whole in one step"
    return pool, size.num_pages, note


def _attention(
    pool: KVPool,
    settings: RuntimeSettings,
    context_length: int,
    op_context: OpContext,
    registries: Registries,
) -> Any:
    name = settings.attention_backend
    types = {option.name: option.type for option in registries.attention.spec(name).options}
    options = {key: types.get(f"{name}.{key}", str)(value) for key, value in settings.options_of(name).items()}
    make = registries.attention.load(name)
    return make(
        AttentionContext(
            pool=pool,
            page_size=settings.page_size,
            dtype=op_context.dtype,
            device=op_context.device,
            context_length=context_length,
            threads=settings.threads,
            features=settings.features,
            options=options,
            shared=op_context.shared,
        )
    )


def _quantization(info: ModelInfo, settings: RuntimeSettings, registries: Registries) -> Any:
    """The checkpoint's (or the asked-for) quantization; GGUF files need none, their parts say themselves what they are."""
    name = settings.quantization or info.quant_method
    if name in (None, "", "gguf", "unquant"):
        return None
    return registries.quantization.load(name)(dict(info.quant_config))


def _kv_scale_notes(model: nn.Module, pool: KVPool) -> tuple[str, ...]:
    layers = attention_layers(model)
    if pool.dtype not in FP8_DTYPES or not layers:
        return ()
    scaled = [layer for layer in layers if layer.scales_loaded]
    if not scaled:
        log.warning("the checkpoint has no scales for an fp8 KV cache: 1.0 is used, which may cost accuracy")
        return ("KV scales: 1.0 (the checkpoint has none)",)
    k, v = [layer.k_scale for layer in layers], [layer.v_scale for layer in layers]
    return (f"KV scales: from the checkpoint, k {min(k):g} to {max(k):g}, v {min(v):g} to {max(v):g}",)


def _op_notes(ops: Ops) -> tuple[str, ...]:
    """Which library serves the ops, and what would be faster but does not serve, with the reason."""
    by_library: dict[str, list[str]] = {}
    for op, entry in sorted(ops.chosen.items()):
        by_library.setdefault(entry.removesuffix(f"_{op}"), []).append(op)
    most = max(by_library, key=lambda library: len(by_library[library]))
    rest = [f"{library} for {', '.join(names)}" for library, names in by_library.items() if library != most]
    by_reason: dict[str, list[str]] = {}
    for entry, why in sorted(ops.passed_over.items()):
        by_reason.setdefault(why, []).append(entry)
    slow = [f"slow: torch instead of {', '.join(names)}: {why}" for why, names in by_reason.items()]
    return ("; ".join((f"ops: {most}", *rest)), *slow)


def _exactness_notes(ops: Ops, attention: Any, dtype: torch.dtype, device: torch.device) -> tuple[str, ...]:
    if dtype != torch.float32 or device.type != "cpu":
        return ()
    if rows_are_exact(ops.linear) and getattr(attention, "exact", True):
        return ("batch invariance: exact",)
    return (
        "batch invariance: not exact here (MKL had started before MKL_CBWR=AUTO,STRICT was set, or torch has no MKL); "
        "greedy answers may differ in rare ties",
    )
