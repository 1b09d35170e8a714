"""Dumps, probes and self-checks for debugging."""

from __future__ import annotations

from typing import Any

from ..declare import Subject, field


class Debug(Subject):
    """Debugging."""

    namespace = "observability"
    title = "Debugging"

    kv_canary = field(
        str,
        "none",
        "Guard the KV cache with check values: log or raise when a page changes that must not.",
        choices=("none", "log", "raise"),
    )
    kv_canary_real_data = field(
        str, "none", "How much of the real KV data the check covers.", choices=("none", "partial", "all")
    )
    kv_canary_sweep_interval = field(int, 0, "Steps between two checks of the whole cache; 0 never.")
    debug_tensor_dump_output_folder = field(str | None, None, "Folder into which layer outputs are dumped.")
    debug_tensor_dump_layers = field(list[int] | None, None, "Layers to dump. Unset: all.")
    debug_tensor_dump_input_file = field(str | None, None, "File with the input whose tensors are dumped.")
    forward_hooks = field(
        list[dict[str, Any]] | None, None, "Hooks on modules of the model, as a JSON list.", parse="json_list"
    )
    msprobe_dump_config = field(str | None, None, "Configuration file of the msProbe dump on Ascend.")
