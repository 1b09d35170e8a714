"""Dumps, probes and self-checks for debugging."""

from __future__ import annotations

from typing import Any

from ..declare import Subject, field


class Debug(Subject):
    """Debugging."""

    namespace = "observability"
    title = "Debugging"

    kv_canary = field(str, "none", "", choices=("none", "log", "raise"))
    kv_canary_real_data = field(str, "none", "", choices=("none", "partial", "all"))
    kv_canary_sweep_interval = field(int, 0, "")
    debug_tensor_dump_output_folder = field(str | None, None, "")
    debug_tensor_dump_layers = field(list[int] | None, None, "")
    debug_tensor_dump_input_file = field(str | None, None, "")
    forward_hooks = field(list[dict[str, Any]] | None, None, "", parse="json_list")
    msprobe_dump_config = field(str | None, None, "")
