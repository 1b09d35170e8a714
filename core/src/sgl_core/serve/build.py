"""From a plan to a Service: the model's card, template, parsers, metrics and HTTP settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sgl_core.config import Config, ConfigError
from sgl_core.engine.messages import Progress
from sgl_core.registry.hooks import Hooks
from sgl_core.registry.registry import Registry

from .core.crash_dump import CrashDump
from .core.custom_labels import custom_labels
from .core.front import Channel, Front
from .core.metric_figures import Buckets
from .core.metric_shapes import token_buckets
from .core.metrics import Metrics
from .core.metrics_file import MetricsFile
from .core.observer import Observer
from .core.request import ModelCard
from .core.request_log import RequestLog
from .core.service import Service
from .core.templates import ChatTemplate, choose_template
from .core.tokenizer import TextTokenizer
from .core.validate import sampling_params
from .hooking import FinishedHook
from .http.settings import HttpSettings
from .log_targets import request_sinks
from .prepare import Prepared

_GENERATION_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""The keys of generation_config.json that become defaults with ``--sampling-defaults model``."""


def build_service(
    prepared: Prepared,
    channel: Channel,
    *,
    progress: Callable[[Progress], None] | None = None,
    hooks: Hooks | None = None,
    metrics: Metrics | None = None,
    watching: Sequence[Observer] = (),
) -> Service:
    """The service of a plan whose worker is behind ``channel``. Raises TemplateError and ConfigError.

    ``metrics`` are those of a former service of the same model, which go on counting; ``hooks`` hear of finished requests,
    and ``watching`` of everything.
    """
    plan, config = prepared.plan, prepared.plan.config
    tokenizer = prepared.read_tokenizer()
    card = model_card(prepared, tokenizer)
    metrics = metrics or make_metrics(card.name, config, hooks)
    metrics.worker.starting()
    observers: list[Observer] = [metrics, *watching]
    request_log = RequestLog(
        config.get("log_requests_level"),
        as_json=config.get("log_requests_format") == "json",
        sinks=request_sinks(config.get("log_requests_target")),
        decode=tokenizer.decode,
    )
    if config.get("log_requests"):
        observers.append(request_log)
    info = server_info(prepared)
    if config.get("crash_dump_folder"):
        observers.append(CrashDump(config.get("crash_dump_folder"), info, card.name))
    if config.get("export_metrics_to_file"):
        observers.append(MetricsFile(config.get("export_metrics_to_file_dir"), card.name))
    if hooks is not None and hooks.names():
        observers.append(FinishedHook(hooks))
    front = Front(channel, tokenizer, card, observers=observers, progress=progress)
    source = choose_template(tokenizer, config.get("chat_template"), config.get("hf_chat_template_name"))
    template = None
    if source is not None:
        template = ChatTemplate(source, tokenizer.special_tokens, config.get("default_chat_template_kwargs"))
    parsers = {slot: plan.selection.get(slot) for slot in ("reasoning_parsers", "tool_parsers")}
    loaded = {
        slot: prepared.registries[slot].load(chosen["name"]) if chosen is not None else None
        for slot, chosen in parsers.items()
    }
    strict = bool(config.get("enable_strict_thinking"))
    if strict:
        check_strict_thinking(loaded["reasoning_parsers"], parsers["reasoning_parsers"])
    flags = [prepared.registries[slot].spec(chosen["name"]).flags for slot, chosen in parsers.items() if chosen]
    return Service(
        front=front,
        template=template,
        reasoning_parser=loaded["reasoning_parsers"],
        tool_parser=loaded["tool_parsers"],
        parser_flags=frozenset().union(*flags),
        strict_thinking=strict,
        metrics=metrics,
        incremental=bool(config.get("incremental_streaming_output")),
        info=info,
        request_log=request_log,
        find_parser=lambda slot, name: prepared.registries[slot].load(name),
    )


def check_strict_thinking(family: Any, chosen: Mapping[str, Any] | None) -> None:
    """Raises ConfigError where nothing tells what must not come while the model thinks."""
    if getattr(family, "excluded", ()):
        return
    why = "needs a reasoning parser" if chosen is None else f"cannot be served with reasoning parser {chosen['name']}"
    raise ConfigError(
        f"--enable-strict-thinking {why}: nothing tells which tokens must not come while the model thinks",
        fields=("enable_strict_thinking", "reasoning_parser"),
        fix="start with --reasoning-parser FAMILY of a family that marks thinking by tags, or without the flag",
    )


def make_metrics(name: str, config: Config, hooks: Hooks | None = None) -> Metrics:
    """The metrics of one model, with what plugins add. Raises ConfigError for buckets that are none."""
    metrics = Metrics(
        name,
        config.get("extra_metric_labels"),
        buckets=Buckets(
            ttft=config.get("bucket_time_to_first_token") or (),
            gaps=config.get("bucket_inter_token_latency") or (),
            latency=config.get("bucket_e2e_request_latency") or (),
            prompt=token_buckets(config.get("prompt_tokens_buckets"), "prompt_tokens_buckets"),
            generation=token_buckets(config.get("generation_tokens_buckets"), "generation_tokens_buckets"),
        ),
        custom=custom_labels(
            config.get("tokenizer_metrics_custom_labels_header"),
            config.get("tokenizer_metrics_allowed_custom_labels"),
            config.get("extra_metric_labels") or (),
        ),
    )
    if hooks is not None:
        hooks.call("sgl_metrics", registry=metrics.plugins)
    return metrics


def model_card(prepared: Prepared, tokenizer: TextTokenizer) -> ModelCard:
    """What requests are checked against; sizes that only the loaded worker knows are joined later."""
    plan, config, model = prepared.plan, prepared.plan.config, prepared.plan.model
    grammar = plan.selection.get("grammars")
    kinds = frozenset[str]()
    if grammar is not None and grammar["name"] != "none":
        kinds = prepared.registries.grammars.spec(grammar["name"]).kinds
    chosen = plan.selection.get("models")
    tasks = ("generate", "embed") if chosen is None else prepared.registries.models.spec(chosen["name"]).tasks
    embeds_only = bool(config.get("is_embedding"))
    return ModelCard(
        name=config.get("served_model_name") or served_name(prepared),
        path=str(prepared.files.path),
        context_length=config.get("context_length") or model.context_length,
        vocab_size=model.vocab_size or tokenizer.size,
        eos_token_ids=tokenizer.eos_token_ids,
        defaults=sampling_defaults(config, prepared.files.generation_config, tokenizer),
        grammar_kinds=kinds,
        grammar_backend=grammar["name"] if grammar is not None else "none",
        embeds="embed" in tasks or (embeds_only and "generate" in tasks),
        generates=not embeds_only and "generate" in tasks,
        labels=class_labels(model.hf_config) if "classify" in tasks else (),
        raw_scores=raw_scores(model.hf_config),
        logit_processors=processor_names(prepared.registries.logit_processors),
        serialized_processors=bool(config.get("enable_custom_logit_processor")),
        auto_truncate=bool(config.get("allow_auto_truncate")),
        stream_interval=config.get("stream_interval") or 1,
        architectures=(model.architecture,),
        model_type=model.model_type,
        weight_version=config.get("weight_version") or "default",
        include_usage=bool(config.get("stream_response_default_include_usage")),
    )


def processor_names(registry: Registry[Any]) -> dict[str, str]:
    """The installed logit processors: name or alias to name."""
    specs = [spec for spec in registry.specs() if spec.available and spec.target]
    return {word: spec.name for spec in specs for word in (*spec.aliases, *spec.deprecated_aliases, spec.name)}


def class_labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the classes in a model's config.json, by number."""
    named = config.get("id2label") or {}
    count = int(config.get("num_labels") or len(named) or 2)
    return tuple(str(named.get(str(at), named.get(at, f"LABEL_{at}"))) for at in range(count))


def raw_scores(config: Mapping[str, Any]) -> bool:
    """Whether a reranker's publisher wants its value as it stands (sentence-transformers' activation function)."""
    own = config.get("sentence_transformers")
    named = own.get("activation_fn") if isinstance(own, Mapping) else None
    return str(named or config.get("sbert_ce_default_activation_function") or "").endswith(".Identity")


def served_name(prepared: Prepared) -> str:
    """The model's name where the operator gives none: MODEL as it was written, a local path by its last part."""
    model = prepared.files.model or str(prepared.files.path)
    return prepared.files.path.name if prepared.files.source == "path" else model


def sampling_defaults(config: Config, generation: Mapping[str, Any], tokenizer: TextTokenizer) -> dict[str, Any]:
    """Defaults of the model (``--sampling-defaults model``), under those of the operator (``--preferred-sampling-params``)."""
    defaults: dict[str, Any] = {}
    if config.get("sampling_defaults") == "model":
        defaults = {key: generation[key] for key in _GENERATION_DEFAULTS if generation.get(key) is not None}
    preferred = config.get("preferred_sampling_params")
    if preferred:
        defaults |= json.loads(preferred) if isinstance(preferred, str) else preferred
    try:
        sampling_params(defaults, ModelCard(name="", vocab_size=tokenizer.size))
    except Exception as error:
        raise ConfigError(
            f"the default sampling parameters cannot be served: {error}",
            fields=("preferred_sampling_params", "sampling_defaults"),
            fix="mend --preferred-sampling-params, or start with --sampling-defaults openai",
        ) from None
    return defaults


def server_info(prepared: Prepared) -> dict[str, Any]:
    """What /server_info says of the configuration: values (secrets masked), every decision, the chosen entries."""
    plan = prepared.plan
    return {
        **plan.config.flat(show_secrets=False),
        "ledger": prepared.resolution.ledger.to_list(),
        "platform": plan.facts.platform,
        "selection": {slot: dict(selected) for slot, selected in plan.selection.items()},
        "dists": dict(plan.dists),
        "warnings": list(prepared.resolution.warnings),
    }


def http_settings(config: Config) -> HttpSettings:
    """The HTTP side's settings. Several API keys are separated by commas, or lines of a file. Raises ConfigError for that file."""
    keys = tuple(key.strip() for key in (config.get("api_key") or "").split(",") if key.strip())
    keys += api_keys_of(config.get("api_key_file"))
    origins = config.get("cors_origins")
    return HttpSettings(
        api_keys=keys,
        admin_key=config.get("admin_api_key"),
        cors_origins=None if origins is None else tuple(origins),
        max_body_bytes=int(config.get("max_body_mib") * 1024 * 1024),
        root_path=config.get("fastapi_root_path") or "",
        file_storage=config.get("file_storage_path") or None,
        docs_page=bool(config.get("docs_page")),
    )


def api_keys_of(path: str | None) -> tuple[str, ...]:
    """The keys in a file. Raises ConfigError where it cannot be read or holds none: that must not open the server."""
    if path is None:
        return ()
    try:
        lines = [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"api_key_file {path} cannot be read: {error}", fields=("api_key_file",)) from None
    keys = tuple(line for line in lines if line and not line.startswith("#"))
    if not keys:
        raise ConfigError(f"api_key_file {path} holds no key", fields=("api_key_file",), fix="write one key a line")
    return keys
