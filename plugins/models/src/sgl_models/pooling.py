"""From hidden states to one vector a text, as the model's publisher says in sentence-transformers' files (modules.json)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F


def _weighted(x: torch.Tensor) -> torch.Tensor:
    """The mean with weights that grow with the position (Muennighoff 2022)."""
    weights = torch.arange(1, len(x) + 1, dtype=x.dtype, device=x.device).unsqueeze(1)
    return (x * weights).sum(0) / weights.sum()


MODES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cls_token": lambda x: x[0],
    "max_tokens": lambda x: x.amax(0),
    "mean_tokens": lambda x: x.mean(0),
    "mean_sqrt_len_tokens": lambda x: x.sum(0) / len(x) ** 0.5,
    "weightedmean_tokens": _weighted,
    "lasttoken": lambda x: x[-1],
}
"""By the name in 1_Pooling/config.json, each from [n, hidden] to [hidden]; in the order in which vectors of several modes are joined."""


@dataclass(frozen=True, slots=True)
class Pooling:
    """``modes`` of :data:`MODES`, joined; ``normalize`` divides by the length."""

    modes: tuple[str, ...] = ("cls_token",)
    normalize: bool = True

    def __call__(self, hidden: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """fp32 vectors [R, size] of rows that lie back to back in ``hidden`` [T, hidden]."""
        rows = [torch.cat([MODES[mode](row) for mode in self.modes]) for row in torch.split(hidden.float(), lengths)]
        vectors = torch.stack(rows)
        return F.normalize(vectors, dim=-1) if self.normalize else vectors


def pooling_of(folder: str) -> Pooling:
    """What the checkpoint says; where it says nothing, the first token's vector at length 1.

    Raises ValueError for a pipeline with a part that is not served.
    """
    root = Path(folder)
    listing = root / "modules.json"
    if not listing.is_file():
        return Pooling()
    modes: tuple[str, ...] = Pooling().modes
    normalize = False
    for module in json.loads(listing.read_text(encoding="utf-8")):
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind == "Pooling":
            modes = _modes(json.loads((root / module["path"] / "config.json").read_text(encoding="utf-8")))
        elif kind == "Normalize":
            normalize = True
        elif kind not in ("Transformer", "Dropout"):
            raise ValueError(f"{listing} names a module {kind!r}; Transformer, Pooling and Normalize are served")
    return Pooling(modes, normalize)


def _modes(config: dict[str, Any]) -> tuple[str, ...]:
    named = config.get("pooling_mode")
    if named is not None:
        wanted = [named] if isinstance(named, str) else list(named)
    else:
        wanted = [
            key.removeprefix("pooling_mode_") for key, on in config.items() if key.startswith("pooling_mode_") and on
        ]
    full = {mode.removesuffix("_tokens").removesuffix("_token"): mode for mode in MODES} | {
        mode: mode for mode in MODES
    }
    unknown = [mode for mode in wanted if mode not in full]
    if unknown or not wanted:
        raise ValueError(f"the pooling mode {', '.join(unknown) or '(none)'} is not served; known: {', '.join(MODES)}")
    return tuple(mode for mode in MODES if mode in {full[name] for name in wanted})
