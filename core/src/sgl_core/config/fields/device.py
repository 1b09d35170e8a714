"""Devices, seeds, watchdogs, process placement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..declare import Subject, field


class Device(Subject):
    """Device and process."""

    namespace = "device"
    title = "Device and process"

    device = field(str | None, None, "")
    base_gpu_id = field(int, 0, "")
    gpu_id_step = field(int, 1, "")
    random_seed = field(int | None, None, "")
    mlx_enable_sampling = field(bool, False, "")
    watchdog_timeout = field(float, 300.0, "")
    soft_watchdog_timeout = field(float | None, None, "")
    sleep_on_idle = field(bool, False, "")
    use_ray = field(bool, False, "")
    custom_sigquit_handler = field(Callable[..., Any] | None, None, "")
    numa_node = field(list[int] | None, None, "")
    gc_threshold = field(list[int] | None, None, "")
