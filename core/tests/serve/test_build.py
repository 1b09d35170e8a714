"""From options to a service: the plan, the card, defaults, parsers, HTTP settings, the start-up table, request logs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sgl_core.api.specs import ParserSpec
from sgl_core.config import ConfigError, ServerArgs
from sgl_core.registry import Registries
from sgl_core.serve.banner import startup_table
from sgl_core.serve.build import build_service, http_settings
from sgl_core.serve.core.request_log import RequestLog
from sgl_core.serve.prepare import Prepared, parser_for, prepare
from sgl_core.serve.testing import ScriptedChannel, save_model

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save_model(tmp_path_factory.mktemp("model") / "tiny")
    generation = {"temperature": 0.6, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.1, "do_sample": True}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


@pytest.fixture(scope="module")
def registries() -> Registries:
    return Registries.discover()


@pytest.fixture
def make(model: Path, registries: Registries) -> Callable[..., Prepared]:
    def prepared(**settings: Any) -> Prepared:
        asked = {"model_path": str(model), "device": "null", **settings}
        return prepare(ServerArgs.from_sources(cli=asked, registries=registries), registries, env={})

    return prepared


@pytest.mark.field_case("152")
async def test_case_152_the_models_own_sampling_defaults(make: Callable[..., Prepared]) -> None:
    service = build_service(make(), ScriptedChannel())
    assert service.card.defaults == {"temperature": 0.6, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.1}
    openai = build_service(make(sampling_defaults="openai"), ScriptedChannel())
    assert openai.card.defaults == {}
    preferred = build_service(make(preferred_sampling_params='{"temperature": 0.1}'), ScriptedChannel())
    assert preferred.card.defaults["temperature"] == 0.1
    assert preferred.card.defaults["top_k"] == 20
    with pytest.raises(ConfigError, match="temperature"):
        build_service(make(preferred_sampling_params='{"temperature": -1}'), ScriptedChannel())


async def test_the_card(make: Callable[..., Prepared]) -> None:
    prepared = make(served_model_name="mine", weight_version="7", stream_interval=4)
    service = build_service(prepared, ScriptedChannel())
    card = service.card
    assert (card.name, card.weight_version, card.stream_interval) == ("mine", "7", 4)
    assert card.vocab_size == prepared.plan.model.vocab_size
    assert card.context_length == 8192
    assert service.template is not None
    assert card.eos_token_ids == service.tokenizer.eos_token_ids


async def test_secrets_stay_inside(make: Callable[..., Prepared]) -> None:
    prepared = make(api_key="one, two", admin_api_key="boss", cors_origins=["https://a.example"], max_body_mib=0.5)
    service = build_service(prepared, ScriptedChannel())
    text = json.dumps(service.info)
    assert "one, two" not in text
    assert "boss" not in text
    assert service.info["ledger"]
    settings = http_settings(prepared.plan.config)
    assert settings.api_keys == ("one", "two")
    assert settings.admin_key == "boss"
    assert settings.cors_origins == ("https://a.example",)
    assert settings.max_body_bytes == 512 * 1024
    table = startup_table(prepared, "mine", {"num_pages": 4, "page_size": 16, "context_length": 64}, "http://x", 1.0)
    assert "64 tokens in 4 pages of 16" in table
    assert "boss" not in table


async def test_api_keys_in_a_file(make: Callable[..., Prepared], tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\n one \n\ntwo\n")
    assert http_settings(make(api_key_file=str(file), api_key="zero").plan.config).api_keys == ("zero", "one", "two")
    file.write_text("# none yet\n")
    for path, told in ((file, "holds no key"), (tmp_path / "absent", "cannot be read")):
        with pytest.raises(ConfigError, match=told):
            http_settings(make(api_key_file=str(path)).plan.config)


async def test_flags_that_nobody_acts_on_are_refused(make: Callable[..., Prepared]) -> None:
    with pytest.raises(ConfigError, match="enable_lora"):
        make(enable_lora=True)
    with pytest.raises(ConfigError, match="not JSON"):
        make(json_model_override_args="{")


def test_auto_takes_the_parser_whose_marks_all_stand_in_the_template() -> None:
    class Specs:
        def specs(self) -> list[ParserSpec]:
            return [
                ParserSpec(name="a", template_markers=("<tool_call>",)),
                ParserSpec(name="b", template_markers=("<tool_call>", "<function=")),
                ParserSpec(name="c", template_markers=("<tool_call>", "<other>")),
                ParserSpec(name="d"),
            ]

    assert parser_for("x <tool_call> y", Specs()) == "a"
    assert parser_for("x <tool_call> <function= y", Specs()) == "b"
    assert parser_for("plain", Specs()) is None


@pytest.mark.parametrize("level", [0, 1, 2, 3])
async def test_request_logs(serve: Any, caplog: pytest.LogCaptureFixture, level: int) -> None:
    async with serve() as api:
        api.service.front.observers.append(RequestLog(level, as_json=True))
        with caplog.at_level(logging.INFO, "sgl.requests"):
            await api.post("/v1/completions", {"prompt": "x" * 100, "max_tokens": 3, "rid": "mine"})
            await api.client.get("/health_generate")
        received, finished = [json.loads(record.message) for record in caplog.records]
        assert received["rid"] == finished["rid"] == "mine"
        assert (finished["finish"], finished["completion_tokens"]) == ("length", 3)
        assert ("sampling" in received) is (level >= 1)
        assert len(received.get("input_ids", [])) == {0: 0, 1: 0, 2: 64, 3: 100}[level]
