"""Which model, and how its configuration is read."""

from __future__ import annotations

from ..declare import Subject, field, from_registry


class Model(Subject):
    """Model."""

    namespace = "model"
    title = "Model"

    model_path = field(str, None, "", aliases=("--model",))
    load_format = field(str, "auto", "", choices=from_registry("load_formats", "auto"))
    model_loader_extra_config = field(str, "{}", "")
    trust_remote_code = field(bool, False, "")
    context_length = field(int | None, None, "", parse="size")
    is_embedding = field(bool, False, "")
    revision = field(str | None, None, "")
    model_impl = field(str, "auto", "")
    model_config_parser = field(str, "auto", "")
    json_model_override_args = field(str, "{}", "")
