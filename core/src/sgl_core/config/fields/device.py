"""Devices, seeds, watchdogs, process placement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..declare import Subject, field


class Device(Subject):
    """Device and process."""

    namespace = "device"
    title = "Device and process"

    device = field(
        str | None,
        None,
        "Which kind of device to run on. Unset takes the best one found; naming one makes its absence an error.",
    )
    base_gpu_id = field(int, 0, "First device to use. Lets two servers share a host.")
    gpu_id_step = field(int, 1, "Step between the devices used.")
    random_seed = field(
        int | None, None, "Seed of sampling without a seed of its own, and of random weights. Unset: random."
    )
    mlx_enable_sampling = field(
        bool, False, "On MLX, sample inside the compiled graph instead of taking the most likely token."
    )
    watchdog_timeout = field(float, 300.0, "Seconds after which a step that does not end stops the server.")
    soft_watchdog_timeout = field(
        float | None, None, "Seconds after which a step that does not end writes a report of all threads."
    )
    sleep_on_idle = field(
        bool,
        False,
        "Sleep between looks at the queue when there is nothing to do. Saves a core, costs a little latency.",
    )
    use_ray = field(bool, False, "Start the ranks as Ray actors.")
    custom_sigquit_handler = field(
        Callable[..., Any] | None,
        None,
        "Function, as module:function, to call when a rank dies. From Python only.",
        cli=False,
    )
    numa_node = field(list[int] | None, None, "NUMA node of each rank, in order. Unset finds out.")
    gc_threshold = field(list[int] | None, None, "Thresholds of Python's garbage collector, one to three numbers.")
