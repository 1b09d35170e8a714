"""From what the operator asked to a plan: platform, model files, resolution, served-or-refused, selection. Torch-free."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sgl_core.api.worker import ProgressSink
from sgl_core.checkpoint import ModelFiles, Tokenizer, load_tokenizer, locate, other_tokenizer
from sgl_core.config import ConfigError, Resolution, ServerArgs, check_served, resolve
from sgl_core.config.model_info import model_info_from_config
from sgl_core.config.served import parts_of
from sgl_core.plan import Plan, make_plan
from sgl_core.registry import Registries
from sgl_core.registry.platform import PlatformChoice
from sgl_core.registry.preflight import checked_platform

from .core.templates import choose_template

log = logging.getLogger("sgl.prepare")


@dataclass(slots=True, kw_only=True)
class Prepared:
    """Everything decided before a worker starts. ``template`` is the chat template's source, once the tokenizer was read."""

    args: ServerArgs
    registries: Registries
    files: ModelFiles
    resolution: Resolution
    plan: Plan
    tokenizer: Tokenizer | None = None

    def read_tokenizer(self) -> Tokenizer:
        """The tokenizer, read once (some 0.3 s for a large vocabulary)."""
        if self.tokenizer is None:
            path = other_tokenizer(self.plan.config)
            self.tokenizer = load_tokenizer(self.files, self.plan.model.hf_config, path=path)
        return self.tokenizer


def prepare(
    args: ServerArgs,
    registries: Registries,
    *,
    progress: ProgressSink | None = None,
    env: Mapping[str, str] | None = None,
    platform: PlatformChoice | None = None,
) -> Prepared:
    """Decide everything. The platform comes first, where it is not chosen yet: without one no model is fetched.

    Raises ConfigError, RegistryError (what to install stands in its message) and CheckpointError.
    """
    platform = platform or checked_platform(registries, args, os.environ if env is None else env)
    files = locate(args.get("model_path"), registries, progress=progress, revision=args.get("revision"))
    overrides = args.get("json_model_override_args")
    hf_config = {**files.config, **_json_object(overrides)}
    model = model_info_from_config(hf_config, path=str(files.path), weight_bytes=files.weight_bytes)
    resolution = resolve(args, platform.facts, model, registries)
    config = resolution.config
    prepared_tokenizer: Tokenizer | None = None
    automatic = {name: registry for name, registry in _PARSERS.items() if config.get(name) == "auto"}
    if automatic:
        prepared_tokenizer = load_tokenizer(files, hf_config, path=other_tokenizer(config))
        source = choose_template(prepared_tokenizer, config.get("chat_template"), config.get("hf_chat_template_name"))
        found = {name: parser_for(source or "", registries[registry]) for name, registry in automatic.items()}
        for name in (name for name, parser in found.items() if parser is None):
            log.warning("%s auto: no installed parser's marks stand in the chat template, so nothing is parsed", name)
        config = config.replaced(**found)
    plan = make_plan(
        registries=registries,
        config=config,
        facts=platform.facts,
        model=model,
        explicit=args.explicit,
        env=resolution.env,
    )
    chosen = {slot: selected["name"] for slot, selected in plan.selection.items()}
    check_served(args, parts_of(registries, chosen), registries, parts_of(registries))
    return Prepared(
        args=args,
        registries=registries,
        files=files,
        resolution=resolution,
        plan=plan,
        tokenizer=prepared_tokenizer,
    )


_PARSERS = {"tool_call_parser": "tool_parsers", "reasoning_parser": "reasoning_parsers"}


def parser_for(template: str, registry: Any) -> str | None:
    """The parser whose markers all stand in the chat template; of several the one with the most to show. None: no parser."""
    best: tuple[int, str] | None = None
    for spec in registry.specs():
        markers = spec.template_markers
        if spec.available and markers and all(marker in template for marker in markers):
            weight = sum(map(len, markers))
            if best is None or weight > best[0]:
                best = (weight, spec.name)
    return best[1] if best is not None else None


def _json_object(value: Any) -> dict[str, Any]:
    """An option that holds a JSON object as text."""
    if not value:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise ConfigError(
            f"json_model_override_args is not JSON: {error}", fields=("json_model_override_args",)
        ) from None
    if not isinstance(parsed, dict):
        raise ConfigError("json_model_override_args must be a JSON object", fields=("json_model_override_args",))
    return parsed
