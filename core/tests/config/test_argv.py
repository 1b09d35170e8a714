"""The command line: values of every form, abbreviations, deprecated flags, mistakes with advice."""

from __future__ import annotations

from typing import Any

import pytest

from sgl_core.config.argv import parse_argv, spellings
from sgl_core.config.errors import ConfigError
from sgl_core.config.fields import fields
from sgl_core.config.server_args import ServerArgs


def value(name: str, *argv: str) -> Any:
    return ServerArgs.from_sources(cli=["m", *argv]).get(name)


@pytest.mark.parametrize(
    ("name", "argv", "expected"),
    [
        ("port", ["--port", "8000"], 8000),
        ("port", ["--port=8000"], 8000),
        ("chunked_prefill_size", ["--chunked-prefill-size", "-1"], -1),
        ("mem_fraction_static", ["--mem-fraction-static", ".5"], 0.5),
        ("watchdog_timeout", ["--watchdog-timeout", "30"], 30.0),
        ("context_length", ["--context-length", "64k"], 64_000),
        ("max_total_tokens", ["--max-total-tokens", "1.5M"], 1_500_000),
        ("max_prefill_tokens", ["--max-prefill-tokens", "2Ki"], 2048),
        ("enable_metrics", ["--enable-metrics"], True),
        ("enable_metrics", ["--enable-metrics=false"], False),
        ("enable_multimodal", ["--enable-multimodal"], True),
        ("dllm_fdfo", ["--no-dllm-fdfo"], False),
        ("dllm_fdfo", ["--dllm-fdfo"], True),
        ("dcp_replicate_q_proj", ["--no-dcp-replicate-q-proj"], False),
        ("numa_node", ["--numa-node", "0", "1"], [0, 1]),
        ("bucket_e2e_request_latency", ["--bucket-e2e-request-latency", "0.5", "2"], [0.5, 2.0]),
        ("uvicorn_access_log_exclude_prefixes", ["--uvicorn-access-log-exclude-prefixes"], []),
        ("model_checksum", ["--model-checksum"], ""),
        ("model_checksum", ["--model-checksum", "sums.json"], "sums.json"),
        ("quantization_param_path", ["--quantization-param-path", "None"], None),
        ("extra_metric_labels", ["--extra-metric-labels", '{"a": "b"}'], {"a": "b"}),
        ("decoupled_spec_connect_endpoints", ["--decoupled-spec-connect-endpoints", '["x", "y"]'], ["x", "y"]),
        ("log_requests_level", ["--log-requests-level", "3"], 3),
        ("fuseep_mode", ["--fuseep-mode", "1"], 1),
        (
            "lora_paths",
            ["--lora-paths", "a=b", '{"lora_name": "n", "lora_path": "p"}'],
            ["a=b", {"lora_name": "n", "lora_path": "p"}],
        ),
        ("cuda_graph_config", ["--cuda-graph-config", '{"decode": {"max_bs": 8}}'], {"decode": {"max_bs": 8}}),
        ("tp_size", ["--tensor-parallel-size", "2"], 2),
        ("tp_size", ["--tp", "2"], 2),
        ("ep_size", ["--ep", "2"], 2),
        ("fp8_gemm_runner_backend", ["--fp8-gemm-backend", "auto"], "auto"),
        ("sampling_backend", ["--sampling-backend", "pytorch"], "pytorch"),
    ],
)
def test_values(name: str, argv: list[str], expected: Any) -> None:
    got = value(name, *argv)
    assert got == expected
    assert type(got) is type(expected)


def test_the_last_of_a_repeated_flag_wins() -> None:
    assert value("port", "--port", "1", "--port", "2") == 2


@pytest.mark.parametrize(
    ("argv", "name", "expected"),
    [
        (["--cuda-graph-bs", "1", "2"], "cuda_graph_bs_decode", [1, 2]),
        (["--cuda-graph-max-bs", "8"], "cuda_graph_max_bs_decode", 8),
        (["--disable-cuda-graph"], "disable_cuda_graph", True),
        (["--enable-breakable-cuda-graph"], "cuda_graph_backend_prefill", "breakable"),
        (["--disable-piecewise-cuda-graph"], "cuda_graph_backend_prefill", "disabled"),
        (["--stream-output"], "incremental_streaming_output", True),
        (["--nsa-prefill-backend", "fa3"], "dsa_prefill_backend", "fa3"),
        (["--nsa-prefill-cp-mode", "in-seq-split"], "dsa_prefill_cp_mode", "in-seq-split"),
        (["--enable-nsa-prefill-context-parallel"], "enable_dsa_prefill_context_parallel", True),
        (["--mamba-scheduler-strategy", "no_buffer"], "mamba_radix_cache_strategy", "no_buffer"),
    ],
)
def test_deprecated_flags_work_and_warn(argv: list[str], name: str, expected: Any) -> None:
    args = ServerArgs.from_sources(cli=argv)
    assert args.get(name) == expected
    assert len(args.warnings) == 1
    assert argv[0] in args.warnings[0]
    assert "deprecated" in args.warnings[0]


def test_retired_flags() -> None:
    assert "deprecated" in ServerArgs.from_sources(cli=["--collect-tokens-histogram"]).warnings[0]
    with pytest.raises(ConfigError, match="no longer supported") as error:
        ServerArgs.from_sources(cli=["--enable-expert-distribution-metrics"])
    assert "--expert-balancedness-report-mode" in error.value.fix


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--page-sise", "3"], "Did you mean '--page-size'"),
        (["--port", "x"], "--port: 'x' is not an integer"),
        (["--port"], "--port needs a value"),
        (["--port", "--host", "h"], "--port needs a value"),
        (["--mem-fraction-static", "x"], "not a number"),
        (["--context-length", "64q"], "64k"),
        (["--context-length", "1.5Ki"], "whole numbers"),
        (["--dtype", "halff"], "Did you mean 'half'"),
        (["--numa-node"], "at least one value"),
        (["--numa-node", "a"], "not an integer"),
        (["--cuda-graph", "8"], "ambiguous"),
        (["--extra-metric-labels", "{"], "not JSON"),
        (["--sidecar-args", "{}"], "not a JSON list"),
        (["--cuda-graph-config", '{"decode": {"bss": 1}}'], "Did you mean 'bs'"),
        (["--cuda-graph-config", '{"decod": {}}'], "Did you mean 'decode'"),
        (["--lora-paths", '{"lora_name": "x"}'], "lora_path"),
        (["--enable-metrics=maybe"], "neither true nor false"),
        (["--disable-piecewise-cuda-graph=x"], "takes no value"),
        (["-p", "3"], "two dashes"),
        (["a", "b"], "only one MODEL"),
        (["a", "--model", "b"], "two models"),
        (["--stat-loggers", "x"], "no such flag"),
    ],
)
def test_mistakes(argv: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        ServerArgs.from_sources(cli=argv)
    assert said in str(error.value)


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        ServerArgs.from_sources(cli=["--port", "x", "--no-such", "--dtype", "z"])
    assert set(error.value.fields) == {"port", "dtype"}
    assert str(error.value).count("\n- ") == 3


def test_model_is_positional() -> None:
    args = ServerArgs.from_sources(cli=["some/model", "--port", "1"])
    assert args.model_path == "some/model"
    setting = args.setting("model_path")
    assert setting is not None
    assert (setting.source, setting.spelled) == ("cli", "MODEL")


def test_words_after_two_dashes_are_positional() -> None:
    assert parse_argv(["--", "--model"]).positional == ["--model"]


def test_abbreviations_never_reach_our_own_fields() -> None:
    own = [declared.flag for declared in fields().values() if declared.own]
    assert own
    for flag in own:
        parsed = parse_argv([flag[:-1], "1"])
        assert not parsed.values or next(iter(parsed.values)) != flag[2:].replace("-", "_")


def test_each_flag_belongs_to_one_field() -> None:
    assert len(spellings()) > 494
    assert spellings()["--nccl-init-addr"].field.name == "dist_init_addr"
