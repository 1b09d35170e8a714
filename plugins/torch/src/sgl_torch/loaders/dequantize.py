"""ggml blocks to dense numbers, vectorised in torch; bit for bit what the gguf package's reference gives.

Every function takes blocks as uint8 [n, block bytes] and returns float32 [n, block elements]. Block layouts: ggml-common.h of
https://github.com/ggml-org/ggml. Rare types go through the gguf package itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from sgl_core.api.checkpoint import GgmlType

_CHUNK_ELEMENTS = 1 << 22  # bounds the temporaries to some tens of MB

_THROUGH_GGUF = frozenset(
    {"IQ1_M", "IQ1_S", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ3_S", "IQ3_XXS", "MXFP4", "NVFP4", "TQ1_0", "TQ2_0"}
)
_IQ4_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def can_dequantize(kind: GgmlType) -> bool:
    """Whether blocks of this type can be turned into numbers here."""
    return kind.name in _BLOCKS or kind.name in _THROUGH_GGUF


def dequantize_rows(raw: NDArray[np.uint8], kind: GgmlType, dtype: torch.dtype) -> torch.Tensor:
    """Rows of blocks [rows, bytes] to [rows, elements]. Raises ValueError for a type without a rule."""
    if not can_dequantize(kind):
        raise ValueError(f"ggml type {kind.name} (id {kind.id}) cannot be dequantized")
    count, row_bytes = raw.shape
    columns = row_bytes // kind.block_bytes * kind.block
    out = torch.empty((count, columns), dtype=dtype)
    step = max(1, _CHUNK_ELEMENTS // max(columns, 1))
    for start in range(0, count, step):
        blocks = raw[start : start + step].reshape(-1, kind.block_bytes)
        out[start : start + step] = _dense(blocks, kind).reshape(-1, columns)
    return out


def _dense(blocks: NDArray[np.uint8], kind: GgmlType) -> torch.Tensor:
    rule = _BLOCKS.get(kind.name)
    if rule is not None:
        return rule(torch.from_numpy(np.ascontiguousarray(blocks) if blocks.flags.writeable else blocks.copy()))
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    with np.errstate(all="ignore"):  # a scale that is not finite is the file's affair
        return torch.from_numpy(dequantize(blocks, GGMLQuantizationType(kind.id)))


def _half(data: torch.Tensor) -> torch.Tensor:
    """Two bytes a row as one float16 a row, widened: [n, 2] to [n, 1]."""
    return data.contiguous().view(torch.float16).float()


def _nibbles(packed: torch.Tensor, group: int) -> torch.Tensor:
    """Bytes [n, m] to 4-bit numbers [n, 2 m]: in each group of bytes all low halves come first, then all high ones."""
    grouped = packed.view(packed.shape[0], -1, 1, group)
    return torch.cat((grouped & 15, grouped >> 4), dim=2).view(packed.shape[0], -1)


def _bit_pairs(packed: torch.Tensor) -> torch.Tensor:
    """Bytes [n, m] to 2-bit numbers [n, 4 m], by groups of 32 bytes from the lowest pair up."""
    grouped = packed.view(packed.shape[0], -1, 1, 32)
    return torch.cat([(grouped >> shift) & 3 for shift in (0, 2, 4, 6)], dim=2).view(packed.shape[0], -1)


def _bits(packed: torch.Tensor) -> torch.Tensor:
    """Bytes [n, 4] to single bits [n, 32], lowest first."""
    shifts = torch.arange(8, dtype=torch.uint8)
    return ((packed.unsqueeze(-1) >> shifts) & 1).view(packed.shape[0], -1)


def _high_bits(packed: torch.Tensor) -> torch.Tensor:
    """32 bytes a block to single bits [n, 256]: all lowest bits first."""
    return torch.cat([(packed >> shift) & 1 for shift in range(8)], dim=1)


def _q4_0(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks[:, :2]) * (_nibbles(blocks[:, 2:].contiguous(), 16).to(torch.int8) - 8).float()


def _q4_1(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks[:, :2]) * _nibbles(blocks[:, 4:].contiguous(), 16).float() + _half(blocks[:, 2:4])


def _q5(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    return _nibbles(low.contiguous(), 16) | (_bits(high.contiguous()) << 4)


def _q5_0(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks[:, :2]) * (_q5(blocks[:, 2:6], blocks[:, 6:]).to(torch.int8) - 16).float()


def _q5_1(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks[:, :2]) * _q5(blocks[:, 4:8], blocks[:, 8:]).float() + _half(blocks[:, 2:4])


def _q8_0(blocks: torch.Tensor) -> torch.Tensor:
    return blocks[:, 2:].contiguous().view(torch.int8).float() * _half(blocks[:, :2])


def _q2_k(blocks: torch.Tensor) -> torch.Tensor:
    scales = blocks[:, :16]
    scale = (_half(blocks[:, 80:82]) * (scales & 15).float()).unsqueeze(-1)
    offset = (_half(blocks[:, 82:84]) * (scales >> 4).float()).unsqueeze(-1)
    numbers = _bit_pairs(blocks[:, 16:80].contiguous()).view(-1, 16, 16).float()
    return (scale * numbers - offset).view(-1, 256)


def _q3_k(blocks: torch.Tensor) -> torch.Tensor:
    packed = blocks[:, 96:108]
    low = torch.cat((packed[:, :8] & 15, packed[:, :8] >> 4), dim=1)
    high = torch.cat([(packed[:, 8:] >> shift) & 3 for shift in (0, 2, 4, 6)], dim=1)
    scales = (low | (high << 4)).to(torch.int8) - 32
    scale = (_half(blocks[:, 108:110]) * scales.float()).unsqueeze(-1)
    # A cleared high bit stands for minus 4.
    missing = (_high_bits(blocks[:, :32]) ^ 1) << 2
    numbers = _bit_pairs(blocks[:, 32:96].contiguous()).to(torch.int8) - missing.to(torch.int8)
    return (scale * numbers.view(-1, 16, 16).float()).view(-1, 256)


def _scales_and_minima(packed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The 6-bit scales and minima of Q4_K and Q5_K: 12 bytes a block to twice [n, 8]."""
    scale, minimum, rest = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = torch.cat((scale & 63, (rest & 15) | ((scale >> 2) & 48)), dim=1)
    minima = torch.cat((minimum & 63, (rest >> 4) | ((minimum >> 2) & 48)), dim=1)
    return scales.float(), minima.float()


def _k_with_minimum(blocks: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    scale = (_half(blocks[:, :2]) * scales).unsqueeze(-1)
    offset = (_half(blocks[:, 2:4]) * minima).unsqueeze(-1)
    return (scale * numbers.view(-1, 8, 32).float() - offset).view(-1, 256)


def _q4_k(blocks: torch.Tensor) -> torch.Tensor:
    return _k_with_minimum(blocks, _nibbles(blocks[:, 16:].contiguous(), 32))


def _q5_k(blocks: torch.Tensor) -> torch.Tensor:
    low = _nibbles(blocks[:, 48:].contiguous(), 32)
    return _k_with_minimum(blocks, low | (_high_bits(blocks[:, 16:48]) << 4))


def _q6_k(blocks: torch.Tensor) -> torch.Tensor:
    low = _nibbles(blocks[:, :128].contiguous(), 64)
    numbers = (low | (_bit_pairs(blocks[:, 128:192].contiguous()) << 4)).to(torch.int8) - 32
    scale = _half(blocks[:, 208:210]) * blocks[:, 192:208].contiguous().view(torch.int8).float()
    return (scale.unsqueeze(-1) * numbers.view(-1, 16, 16).float()).view(-1, 256)


def _iq4_values(packed: torch.Tensor) -> torch.Tensor:
    table = torch.tensor(_IQ4_VALUES, dtype=torch.float32)
    return table[_nibbles(packed.contiguous(), 16).long()]


def _iq4_nl(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks[:, :2]) * _iq4_values(blocks[:, 2:])


def _iq4_xs(blocks: torch.Tensor) -> torch.Tensor:
    packed_low = blocks[:, 4:8].unsqueeze(-1)
    low = torch.cat((packed_low & 15, packed_low >> 4), dim=2).view(-1, 8)
    packed_high = blocks[:, 2:4].unsqueeze(-1)
    high = ((packed_high >> torch.tensor([0, 2, 4, 6], dtype=torch.uint8)) & 3).view(-1, 8)
    scales = (low | (high << 4)).to(torch.int8) - 32
    scale = (_half(blocks[:, :2]) * scales.float()).unsqueeze(-1)
    return (scale * _iq4_values(blocks[:, 8:]).view(-1, 8, 32)).view(-1, 256)


_BLOCKS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q2_K": _q2_k,
    "Q3_K": _q3_k,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
    "IQ4_NL": _iq4_nl,
    "IQ4_XS": _iq4_xs,
}
