"""Rotary frequencies: the plain ones and every common scaling, from a model's configuration.

Sources: RoPE (Su et al. 2021), position interpolation (Chen et al. 2023), NTK-aware and dynamic scaling (bloc97, emozilla
2023), YaRN (Peng et al. 2023), Llama 3.1's wavelength bands, LongRoPE (Ding et al. 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeParameters:
    """What determines the rotation. ``max_position`` is the configuration's max_position_embeddings."""

    rotary_dim: int
    theta: float = 10000.0
    kind: str = "default"
    max_position: int = 2048
    scaling: Mapping[str, Any] = field(default_factory=dict)

    def number(self, name: str, default: float | None = None) -> float:
        """A number of the scaling section. Raises ValueError when it is absent and has no default."""
        value = self.scaling.get(name)
        if value is None:
            if default is None:
                raise ValueError(f"rope scaling {self.kind!r} needs {name!r} in the model's configuration")
            return default
        return float(value)

    @property
    def original_max_position(self) -> float:
        """The context the model was trained with before scaling."""
        return self.number("original_max_position_embeddings", float(self.max_position))


def rope_parameters(
    config: Mapping[str, Any], head_dim: int, layer_type: str | None = None, theta: float = 10000.0
) -> RopeParameters:
    """Read the rotary parameters of a text config, written the old way (rope_theta, rope_scaling) or the new (rope_parameters).

    ``layer_type`` picks one of several parameter sets; ``theta`` is the family's default.
    """
    section = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if layer_type is not None and isinstance(section.get(layer_type), Mapping):
        section = section[layer_type]
    scaling = dict(section)
    if "original_max_position_embeddings" not in scaling and config.get("original_max_position_embeddings"):
        scaling["original_max_position_embeddings"] = config["original_max_position_embeddings"]
    partial = (
        scaling.get("partial_rotary_factor") or config.get("partial_rotary_factor") or config.get("rotary_pct") or 1.0
    )
    kind = str(scaling.get("rope_type") or scaling.get("type") or "default")
    return RopeParameters(
        rotary_dim=int(head_dim * float(partial)),
        theta=float(scaling.get("rope_theta") or config.get("rope_theta") or theta),
        kind={"su": "longrope", "mrope": "default"}.get(kind, kind),
        max_position=int(config.get("max_position_embeddings") or 2048),
        scaling=scaling,
    )


def frequencies(params: RopeParameters, context_length: int) -> tuple[torch.Tensor, float]:
    """(inverse frequencies [rotary_dim / 2] fp32, factor on cosines and sines) for sequences up to ``context_length``.

    Raises ValueError for a scaling that is not known.
    """
    compute = _KINDS.get(params.kind)
    if compute is None:
        raise ValueError(f"rope scaling {params.kind!r} is not known; served: {', '.join(sorted(_KINDS))}")
    return compute(params, context_length)


def plain_frequencies(params: RopeParameters) -> torch.Tensor:
    """``theta^(-2i/d)``."""
    exponents = torch.arange(0, params.rotary_dim, 2, dtype=torch.int64).float() / params.rotary_dim
    return 1.0 / (params.theta**exponents)


def dynamic_frequencies(params: RopeParameters, lengths: torch.Tensor) -> torch.Tensor:
    """Dynamic NTK for sequences of ``lengths`` [N] tokens: plain up to max_position, then a base that grows with the length.

    Returns [N, rotary_dim / 2].
    """
    factor, dim = params.number("factor"), params.rotary_dim
    lengths = lengths.clamp_min(params.max_position)
    grown = params.theta * ((factor * lengths / params.max_position) - (factor - 1)) ** (dim / (dim - 2))
    exponents = torch.arange(0, dim, 2, dtype=torch.int64).float() / dim
    return 1.0 / grown.unsqueeze(1) ** exponents


def _default(params: RopeParameters, context_length: int) -> tuple[torch.Tensor, float]:
    return plain_frequencies(params), 1.0


def _linear(params: RopeParameters, context_length: int) -> tuple[torch.Tensor, float]:
    return plain_frequencies(params) / params.number("factor"), 1.0


def _llama3(params: RopeParameters, context_length: int) -> tuple[torch.Tensor, float]:
    plain = plain_frequencies(params)
    factor, low, high = (params.number(name) for name in ("factor", "low_freq_factor", "high_freq_factor"))
    wavelength = 2 * math.pi / plain
    smooth = (params.original_max_position / wavelength - low) / (high - low)
    between = (1 - smooth) * plain / factor + smooth * plain
    long_waves = torch.where(wavelength > params.original_max_position / low, plain / factor, between)
    return torch.where(wavelength < params.original_max_position / high, plain, long_waves), 1.0


def _yarn(params: RopeParameters, context_length: int) -> tuple[torch.Tensor, float]:
    dim, original = params.rotary_dim, params.original_max_position
    factor = params.number("factor", params.max_position / original)

    def turning_dim(rotations: float) -> float:
        return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(params.theta))

    low, high = turning_dim(params.number("beta_fast", 32.0)), turning_dim(params.number("beta_slow", 1.0))
    if params.scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = ((torch.arange(dim // 2, dtype=torch.float32) - low) / ((high - low) or 0.001)).clamp(0, 1)
    waves = params.theta ** (torch.arange(0, dim, 2).float() / dim)
    kept = 1 - ramp
    return 1.0 / (factor * waves) * (1 - kept) + 1.0 / waves * kept, _yarn_attention(params, factor)


def _yarn_attention(params: RopeParameters, factor: float) -> float:
    def scale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    given = params.scaling.get("attention_factor")
    if given is not None:
        return float(given)
    own, all_dims = params.scaling.get("mscale"), params.scaling.get("mscale_all_dim")
    return scale(float(own)) / scale(float(all_dims)) if own and all_dims else scale(1.0)


def _longrope(params: RopeParameters, context_length: int) -> tuple[torch.Tensor, float]:
    """The long factors when the served context exceeds the original one, else the short ones.

    One set for all sequences, because cached keys are shared between sequences of different lengths.
    """
    original = params.original_max_position
    factor = params.number("factor", params.max_position / original)
    given = params.scaling.get("attention_factor")
    if given is not None:
        attention = float(given)
    else:
        attention = 1.0 if factor <= 1.0 else math.sqrt(1 + math.log(factor) / math.log(original))
    name = "long_factor" if context_length > original else "short_factor"
    factors = params.scaling.get(name)
    if factors is None or len(factors) != params.rotary_dim // 2:
        raise ValueError(f"rope scaling 'longrope' needs {name!r} with {params.rotary_dim // 2} numbers")
    exponents = torch.arange(0, params.rotary_dim, 2, dtype=torch.int64).float() / params.rotary_dim
    return 1.0 / (torch.tensor(factors, dtype=torch.float32) * params.theta**exponents), attention


_KINDS: dict[str, Callable[[RopeParameters, int], tuple[torch.Tensor, float]]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _default,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}
