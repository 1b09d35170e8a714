"""Command line over environment over file over default, with the same checks on each (field case 190)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sgl_core.config.errors import ConfigError
from sgl_core.config.server_args import ServerArgs
from sgl_core.registry import Registries

pytestmark = pytest.mark.field_case("190")


def yaml_file(folder: Path, text: str) -> str:
    file = folder / "server.yaml"
    file.write_text(text)
    return str(file)


def read(source: str, field: str, text: str, folder: Path, registries: Registries | None) -> ServerArgs:
    """One setting through one of the three sources."""
    if source == "cli":
        return ServerArgs.from_sources(cli=[f"--{field.replace('_', '-')}={text}"], registries=registries)
    if source == "env":
        return ServerArgs.from_sources(env={f"SGL_{field.upper()}": text}, registries=registries)
    return ServerArgs.from_sources(file=yaml_file(folder, f"{field}: {text}\n"), registries=registries)


def test_precedence_and_provenance(tmp_path: Path) -> None:
    file = yaml_file(tmp_path, "port: 1\nhost: filehost\npage-size: 4\ntensor-parallel-size: 2\n")
    env = {"SGL_PORT": "2", "SGL_HOST": "envhost", "PATH": "/bin"}
    args = ServerArgs.from_sources(cli=["m", "--port", "3"], env=env, file=file)
    assert (args.port, args.host, args.page_size, args.tp_size, args.dp_size) == (3, "envhost", 4, 2, 1)
    sources = {name: args.setting(name) for name in ("port", "host", "page_size", "dp_size")}
    assert [setting and (setting.source, setting.spelled) for setting in sources.values()] == [
        ("cli", "--port"),
        ("env", "SGL_HOST"),
        ("file", f"{file}:page-size"),
        None,
    ]
    assert args.explicit("page_size")
    assert not args.explicit("dp_size")
    assert sorted(args) == ["host", "model_path", "page_size", "port", "tp_size"]


@pytest.mark.parametrize("source", ["cli", "env", "file"])
def test_a_plugins_choice_is_legal_everywhere(source: str, tmp_path: Path, vendor_registries: Registries) -> None:
    args = read(source, "attention_backend", "my_plugin_backend", tmp_path, vendor_registries)
    assert args.attention_backend == "my_plugin_backend"


@pytest.mark.parametrize("source", ["cli", "env", "file"])
def test_a_misspelt_choice_is_refused_everywhere(source: str, tmp_path: Path, vendor_registries: Registries) -> None:
    with pytest.raises(ConfigError) as error:
        read(source, "attention_backend", "my_plugin_backnd", tmp_path, vendor_registries)
    assert "Did you mean 'my_plugin_backend'" in str(error.value)
    assert error.value.fields == ("attention_backend",)


@pytest.mark.parametrize("source", ["cli", "env", "file"])
@pytest.mark.parametrize(
    ("field", "text"), [("port", "http"), ("dtype", "halff"), ("context_length", "64q"), ("enable_lora", "perhaps")]
)
def test_wrong_types_and_words_are_refused_everywhere(source: str, field: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        read(source, field, text, tmp_path, None)
    assert error.value.fields == (field,)


def test_deprecated_alias_of_a_choice_is_legal_and_kept(vendor_registries: Registries) -> None:
    args = ServerArgs.from_sources(cli=["--attention-backend", "nsa"], registries=vendor_registries)
    assert args.attention_backend == "nsa"


def test_a_registry_without_entries_checks_nothing(vendor_registries: Registries) -> None:
    args = ServerArgs.from_sources(cli=["--lora-backend", "anything"], registries=vendor_registries)
    assert args.lora_backend == "anything"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("SGL_NUMA_NODE", "0,1", [0, 1]),
        ("SGL_NUMA_NODE", "[0, 1]", [0, 1]),
        ("SGL_LOG_REQUESTS_TARGET", "stdout /tmp", ["stdout", "/tmp"]),
        ("SGL_ENABLE_METRICS", "1", True),
        ("SGL_ENABLE_METRICS", "off", False),
        ("SGL_MAX_TOTAL_TOKENS", "64k", 64000),
        ("SGL_EXTRA_METRIC_LABELS", '{"a": "b"}', {"a": "b"}),
    ],
)
def test_environment_forms(name: str, text: str, expected: Any) -> None:
    args = ServerArgs.from_sources(env={name: text})
    assert args.get(name.removeprefix("SGL_").lower()) == expected


def test_environment_names_nearly_right_are_refused_and_foreign_ones_reported() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'SGL_PAGE_SIZE'"):
        ServerArgs.from_sources(env={"SGL_PAGESIZE": "4"})
    args = ServerArgs.from_sources(env={"SGL_SOMETHING_ELSE_ALTOGETHER": "4", "SGL_CACHE_DIR": "/x"})
    assert args.warnings == ("environment variable SGL_SOMETHING_ELSE_ALTOGETHER sets no field and is ignored",)


def test_a_service_link_is_recognised() -> None:
    with pytest.raises(ConfigError) as error:
        ServerArgs.from_sources(env={"SGL_PORT": "tcp://10.0.0.1:80"})
    assert "enableServiceLinks" in str(error.value)


def test_file_values_of_real_types(tmp_path: Path) -> None:
    file = yaml_file(
        tmp_path,
        "max_total_tokens: 64k\nwatchdog_timeout: 5\nenable_metrics: true\nnuma_node: [0, 1]\n"
        "extra_metric_labels: {a: b}\ncuda_graph_config: {decode: {max_bs: 4}}\nno-dllm-fdfo: true\n",
    )
    args = ServerArgs.from_sources(file=file)
    assert args.max_total_tokens == 64000
    assert args.watchdog_timeout == 5
    assert args.enable_metrics is True
    assert args.numa_node == [0, 1]
    assert args.extra_metric_labels == {"a": "b"}
    assert args.cuda_graph_config == {"decode": {"max_bs": 4}}
    assert args.dllm_fdfo is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pge_size: 4\n", "Did you mean 'page_size'"),
        ("port: true\n", "is a bool"),
        ("port: 1.5\n", "is a float"),
        ("host: 3\n", "is a int"),
        ("numa_node: [a]\n", "takes list[int]"),
        ("- port\n", "mapping"),
        ("port: [\n", "not YAML"),
        ("uses_mamba_radix_cache: true\n", "no such setting"),
    ],
)
def test_mistakes_in_a_file(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        ServerArgs.from_sources(file=yaml_file(tmp_path, text))
    assert said in str(error.value)


def test_config_flag_names_the_file(tmp_path: Path) -> None:
    file = yaml_file(tmp_path, "port: 7\n")
    assert ServerArgs.from_sources(cli=["m", "--config", file]).port == 7
    assert ServerArgs.from_sources(cli=["m", "--port", "8", f"--config={file}"]).port == 8
    with pytest.raises(ConfigError, match="more than one config file"):
        ServerArgs.from_sources(cli=["--config", file, "--config", file])
    with pytest.raises(ConfigError, match="No such file"):
        ServerArgs.from_sources(cli=["--config", str(tmp_path / "none.yaml")])
    with pytest.raises(ConfigError, match="must end in"):
        ServerArgs.from_sources(cli=["--config", "settings.ini"])


def test_python_values_are_checked_too() -> None:
    assert ServerArgs.of(page_size=16, lora_paths={"a": "b"}).page_size == 16
    with pytest.raises(ConfigError, match="page_size"):
        ServerArgs.of(page_size="many")
    with pytest.raises(ConfigError, match="Did you mean 'page_size'"):
        ServerArgs.of(pagesize=1)


def test_deprecated_field_names_warn(tmp_path: Path) -> None:
    args = ServerArgs.from_sources(file=yaml_file(tmp_path, "grpc_mode: true\n"))
    assert args.warnings[0].endswith("grpc_mode is deprecated; use smg_grpc_mode")


def test_server_args_are_immutable_and_name_unknown_fields() -> None:
    args = ServerArgs.of(port=1)
    with pytest.raises(AttributeError, match="immutable"):
        args.port = 2
    with pytest.raises(AttributeError, match="Did you mean 'page_size'"):
        args.page_sizes  # noqa: B018
    assert args.replaced(port=5).port == 5
    assert args.port == 1


def test_secrets_do_not_show_in_repr() -> None:
    assert "hunter2" not in repr(ServerArgs.of(api_key="hunter2"))
