"""The random number of a draw, as a hash of (seed, number of tokens generated so far) and of nothing else.

One number in [0, 1) per row is enough for a draw by inverse cumulative distribution, so a row's token cannot depend on the
batch around it, on retraction, or on a generator's history. The hash is SplitMix64's finaliser (Steele, Lea, Flood 2014).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def uniforms(seeds: NDArray[np.uint64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Numbers in [0, 1) with 53 random bits, one for each (seed, count) pair."""
    # Both enter through a full mix: neighbouring seeds or counts share nothing.
    mixed = _mix(_mix(seeds + _GOLDEN) + (counts.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * _M1
    x = (x ^ (x >> np.uint64(27))) * _M2
    return x ^ (x >> np.uint64(31))
