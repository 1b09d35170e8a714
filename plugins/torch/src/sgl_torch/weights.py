"""Strict weight loading: every parameter states the checkpoint tensors it is made of, and nothing is lost or left random.

A module that owns weights implements :class:`Loadable`; the names are those of the Hugging Face checkpoint, so fused layers
(qkv, gate-up) state one name per part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from .ops import WeightPart

ALWAYS_SKIPPED = ("rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached")
"""Buffers that some checkpoints carry and that follow from the configuration."""


class WeightError(ValueError):
    """The checkpoint and the model do not fit. The message names the tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSlot:
    """Where one checkpoint tensor goes. ``shape`` is what it must have (None: the
    module checks); ``read`` gives it back dense.

    An ``optional`` slot may stay empty; an ``ignored`` one takes a tensor that carries nothing new (a tied head).
    """

    load: Callable[[WeightPart], None]
    read: Callable[[], torch.Tensor]
    shape: tuple[int, ...] | None
    optional: bool = False
    ignored: bool = False


@runtime_checkable
class Loadable(Protocol):
    """A module with weights of its own."""

    def weight_slots(self, prefix: str) -> Iterator[tuple[str, WeightSlot]]:
        """(checkpoint name, slot) pairs; ``prefix`` is the module's path in the model, for example ``model.norm``."""
        ...


def weight_slots(model: nn.Module) -> dict[str, WeightSlot]:
    """Every checkpoint name the model knows. Raises WeightError when two modules claim one name."""
    slots: dict[str, WeightSlot] = {}
    for path, module in model.named_modules():
        if not isinstance(module, Loadable):
            continue
        for name, slot in module.weight_slots(path):
            if name in slots:
                raise WeightError(f"two modules claim the tensor {name}")
            slots[name] = slot
    return slots


@dataclass(slots=True)
class LoadReport:
    """What happened: tensors loaded, tensors skipped by rule, optional slots left empty."""

    loaded: int = 0
    skipped: int = 0
    loaded_names: frozenset[str] = frozenset()


def load_weights(
    model: nn.Module,
    weights: Iterable[tuple[str, WeightPart]],
    *,
    skip: Callable[[str], bool] = lambda name: False,
    progress: Callable[[int, int], None] | None = None,
) -> LoadReport:
    """Load a checkpoint into ``model``.

    ``skip`` says which unexpected tensors the family leaves out on purpose. Raises WeightError naming tensors that are missing,
    that nothing takes, that come twice, or whose shape does not fit.
    """
    slots = weight_slots(model)
    required = sum(not slot.optional and not slot.ignored for slot in slots.values())
    seen: set[str] = set()
    unexpected: list[str] = []
    report = LoadReport()
    for name, tensor in weights:
        slot = slots.get(name)
        if slot is None:
            if skip(name) or name.endswith(ALWAYS_SKIPPED):
                report.skipped += 1
            else:
                unexpected.append(name)
            continue
        if name in seen:
            raise WeightError(f"the checkpoint holds the tensor {name} twice")
        seen.add(name)
        if slot.ignored:
            report.skipped += 1
            continue
        if slot.shape is not None and tuple(tensor.shape) != slot.shape:
            raise WeightError(f"{name} has shape {list(tensor.shape)}, the configuration asks for {list(slot.shape)}")
        slot.load(tensor)
        report.loaded += 1
        if progress is not None:
            progress(report.loaded, max(required, report.loaded))
    missing = [name for name, slot in slots.items() if name not in seen and not slot.optional and not slot.ignored]
    if missing or unexpected:
        raise WeightError(_complaint(missing, unexpected))
    report.loaded_names = frozenset(seen)
    return report


def _complaint(missing: list[str], unexpected: list[str]) -> str:
    parts = []
    if missing:
        parts.append(f"the checkpoint lacks {_listed(missing)}")
    if unexpected:
        parts.append(f"the model has no place for {_listed(unexpected)}")
    return "; ".join(parts) + " (is this the right architecture, and is the download complete?)"


def _listed(names: list[str], shown: int = 8) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
