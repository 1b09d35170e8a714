"""Fields that the reference system does not have: plugins, trust, and the CPU platform's threads."""

from __future__ import annotations

from ..declare import Subject, field


class Plugins(Subject):
    """Plugins."""

    namespace = "plugins"
    title = "Plugins and trust"
    own = True

    plugins_allow = field(
        list[str] | None,
        None,
        "Distributions whose entries may be used; all others are ignored. First-party ones need no mention.",
    )
    plugins_deny = field(list[str] | None, None, "Distributions whose entries are ignored, whatever they offer.")
    prefer = field(
        list[str] | None,
        None,
        "Which distribution wins where two offer one name, as REGISTRY.NAME=DISTRIBUTION, "
        "for example attention.fa3=vendor-dist.",
    )
    safe_mode = field(bool, False, "Use first-party plugins only. The quickest test of whether a plugin is at fault.")
    plugin_option = field(
        list[str] | None,
        None,
        "Settings of single plugins, as ENTRY.OPTION=VALUE. `sgl plugin show` lists what an entry understands.",
    )
    locked = field(
        bool,
        False,
        "Refuse to start where an installed plugin differs from the lock file that `sgl plugin lock` wrote.",
    )


class Server(Subject):
    """Server."""

    namespace = "serving"
    title = "HTTP server"
    own = True

    cors_origins = field(
        list[str] | None,
        None,
        "Origins whose web pages may use the server, or * for all. Unset: all where an API key is asked for, else pages "
        "of this machine only.",
    )
    api_key_file = field(
        str | None,
        None,
        "File with API keys, one a line; empty lines and lines that begin with # are left out. They count beside --api-key, "
        "which takes several separated by commas.",
    )
    max_body_mib = field(float, 64.0, "Largest request body in MiB; larger ones are answered 413.")
    docs_page = field(bool, False, "Serve a page of all routes at /docs. /openapi.json is always there.")
    drain_seconds = field(
        float,
        30.0,
        "How long running requests may go on after SIGTERM or SIGINT, in seconds. New ones are answered 503 meanwhile.",
    )


class SeveralModels(Subject):
    """Several models."""

    namespace = "serving"
    title = "Several models in one server"
    own = True

    models = field(
        list[str] | None,
        None,
        "Several models, each as NAME=PATH; --model NAME=PATH, repeated, says the same. Requests choose by their model field; "
        "each is loaded when the first request for it comes.",
    )
    models_file = field(
        str | None,
        None,
        "YAML file with the models: a mapping of names to paths, or to settings of this page that hold for one model.",
    )
    models_memory = field(
        int | None,
        None,
        "Memory for the weights and KV pools of the loaded models, for example 16G; idle models are unloaded to make room. "
        "Unset: all stay loaded.",
        parse="size",
    )


class JumpForward(Subject):
    """Jump-forward."""

    namespace = "schedule"
    title = "Jump-forward"
    own = True

    disable_jump_forward = field(
        bool,
        False,
        "Sample tokens that an output constraint forces too, one step each. Answers are the same; with jump-forward such "
        "tokens are appended at once and computed together.",
    )


class PrefillStep(Subject):
    """Prefill beside decoding."""

    namespace = "schedule"
    title = "Prefill beside decoding"
    own = True

    prefill_step_ms = field(
        float | None,
        None,
        "How long running answers may wait for prompts before their next token, in milliseconds: prompts are cut into chunks that "
        "fit, by what a token cost in the steps before; short ones may follow one another at once. Unset lets the platform say "
        "(CPU: 200); 0 sets no bound.",
    )


class Own(Subject):
    """CPU."""

    namespace = "device"
    title = "CPU"
    own = True

    cpu_threads = field(
        int | None,
        None,
        "Compute threads of a CPU worker. Unset takes the cores that this process may use (affinity and cgroup quota).",
    )
    cpu_exact_activations = field(
        bool,
        False,
        "Multiply quantized weights with float32 activations and store a float32 KV cache where none is named, for "
        "comparisons with a float32 reference. Several times slower.",
    )
