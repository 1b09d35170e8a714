"""Buckets of the histograms, as the reference system has them and as operators write them, and a histogram for every token."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from sgl_core.config import ConfigError

FIRST_TOKEN = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
"""Seconds."""
WHOLE = (*FIRST_TOKEN, 600, 1200, 1800, 2400)
"""Seconds."""
GAP = tuple(
    float(entry)
    for entry in [
        "0.002",
        "0.004",
        "0.006",
        "0.008",
        "0.01",
        "0.015",
        "0.02",
        "0.025",
        "0.03",
        "0.035",
        "0.04",
        "0.06",
        "0.08",
        "0.1",
        "0.2",
        "0.4",
        "0.6",
        "0.8",
        "1",
        "2",
        "4",
        "6",
        "8",
    ]
)
"""Seconds."""
DELIVERY = tuple(round(1e-4 * 1.5**power, 6) for power in range(24))
"""Seconds: 0.1 ms to 1.1 s."""
QUEUE = (
    0,
    0.1,
    0.2,
    0.5,
    1,
    2,
    3,
    4,
    5,
    10,
    15,
    20,
    30,
    40,
    50,
    60,
    70,
    80,
    90,
    100,
    200,
    300,
    400,
    500,
    600,
    700,
    800,
    900,
    1000,
)
"""Seconds."""
TOKENS = tuple(
    float(entry)
    for entry in [
        "100",
        "300",
        "500",
        "700",
        "1000",
        "1500",
        "2000",
        "3000",
        "4000",
        "5000",
        "6000",
        "7000",
        "8000",
        "9000",
        "10000",
        "12500",
        "15000",
        "17500",
        "20000",
        "22500",
        "25000",
        "27500",
        "30000",
        "35000",
        "40000",
        "60000",
        "80000",
        "100000",
        "200000",
        "300000",
        "400000",
        "600000",
        "800000",
        "1000000",
        "1100000",
    ]
)


def token_buckets(rule: Sequence[str] | None, field: str) -> tuple[float, ...]:
    """Buckets by an operator's rule: ``default``, ``tse MIDDLE BASE COUNT`` (the distance from the middle grows by powers
    of the base, on both sides) or ``custom V V ...``. Raises ConfigError naming ``field``."""
    kind, *words = rule or ("default",)
    try:
        numbers = [float(word) for word in words]
        if kind == "default" and not numbers:
            return TOKENS
        if kind == "custom" and numbers:
            return tuple(sorted(set(numbers)))
        if kind == "tse" and len(numbers) == 3 and numbers[1] > 1:
            middle, base, count = numbers
            steps = [base**power for power in range(1, math.ceil(count / 2) + 1)]
            return tuple(sorted({middle, *(middle + s for s in steps), *(max(0.0, middle - s) for s in steps)}))
    except ValueError:
        pass
    raise ConfigError(
        f"{field}: {' '.join(rule or ())!r} is no rule for buckets",
        fields=(field,),
        fix="write default, tse MIDDLE BASE COUNT with a base above 1, or custom VALUE VALUE ...",
    )


class Gaps(Collector):
    """A histogram cheap enough for every token: the client library's own costs more than the rest of a token's way."""

    def __init__(self, name: str, help_text: str, labels: Mapping[str, str], buckets: Sequence[float]) -> None:
        self._name, self._help, self._labels = name, help_text, dict(labels)
        self._bounds = tuple(sorted(buckets))
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float, times: int) -> None:
        """``times`` gaps of this length."""
        self._counts[bisect_left(self._bounds, seconds)] += times
        self._sum += seconds * times

    def collect(self) -> Iterator[HistogramMetricFamily]:
        total, buckets = 0, []
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        family = HistogramMetricFamily(self._name, self._help, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), buckets, self._sum)
        yield family
