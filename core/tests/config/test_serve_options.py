"""The help page of `sgl serve`, parsing with the environment, and the refusal of what nothing serves."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from sgl_core.api.specs import AttentionSpec
from sgl_core.config import ConfigError, ServerArgs, check_served, parse_serve_argv
from sgl_core.config.core_parts import CORE_PARTS
from sgl_core.config.fields import fields
from sgl_core.config.option_help import has_flag, help_page
from sgl_core.config.serve_options import wants_help
from sgl_core.config.served import Part, coverage, parts_of, serving
from sgl_core.registry import Registries


def test_help_lists_every_flag_once_under_its_subject() -> None:
    page = help_page()
    lines = page.splitlines()
    for declared in fields().values():
        if has_flag(declared):
            heads = [
                line
                for line in lines
                if line.startswith(f"  {declared.flag}") and line[len(declared.flag) + 2 :][:1] in ("", " ", ",")
            ]
            assert len(heads) == 1, declared.flag
    for subject in {declared.subject for declared in fields().values() if has_flag(declared)}:
        assert f"{subject}:" in lines


def test_help_is_searchable_and_shows_a_vendors_choice(vendor_registries: Registries) -> None:
    page = help_page(vendor_registries, ["attention"])
    assert "--attention-backend" in page
    assert "my_plugin_backend, torch_native" in page
    assert "--port" not in page
    assert "my_plugin_backend.block  Tokens per block. Default: 16." in help_page(vendor_registries)
    assert "--kv-cache-dtype" in help_page(words=["kv", "dtype"])
    assert "--page-size" in help_page(words=["page_size"])
    with pytest.raises(LookupError, match="no flag of sgl serve is about 'xyzzy'"):
        help_page(words=["xyzzy"])


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["m"], None),
        (["--help"], []),
        (["-h", "kv", "dtype"], ["kv", "dtype"]),
        (["m", "--help=kv"], ["kv"]),
        (["--", "--help"], None),
    ],
)
def test_when_help_is_asked_for(argv: list[str], expected: list[str] | None) -> None:
    assert wants_help(argv) == expected


def test_parse_reads_the_environment(vendor_registries: Registries) -> None:
    args = parse_serve_argv(["m", "--port", "1"], vendor_registries, env={"SGL_HOST": "h", "SGL_PORT": "2"})
    assert (args.model_path, args.port, args.host) == ("m", 1, "h")


def test_help_costs_little() -> None:
    """Within 400 ms of what bare Python takes, in processor time, so that a busy machine does not count."""
    code = "from sgl_core.config.serve_options import serve_help, discover; print(serve_help([], discover([], {})))"

    def best(*command: str) -> float:
        times = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    assert best("-c", code) - best("-c", "pass") < 0.4


PARTS = [Part("front", ("port", "kv_cache_dtype=auto|bf16", "attention_backend"), "sgl-core")]


def test_a_flag_that_nothing_serves_is_refused() -> None:
    args = ServerArgs.from_sources(cli=["m", "--port", "1", "--tp", "2"])
    with pytest.raises(ConfigError) as error:
        check_served(
            args, [*PARTS, Part("files", ("model_path",))], others=[Part("platforms cuda", ("tp_size",), "sgl-cuda")]
        )
    assert error.value.fields == ("tp_size",)
    assert "--tp: no installed part acts on tp_size = 2" in str(error.value)
    assert "platforms cuda (sgl-cuda)" in str(error.value)


def test_defaults_are_never_refused() -> None:
    check_served(ServerArgs.from_sources(cli=["--tp", "1", "--dtype", "auto"]), PARTS)


def test_values_can_be_limited() -> None:
    check_served(ServerArgs.of(kv_cache_dtype="bf16"), PARTS)
    with pytest.raises(ConfigError, match="use auto or bf16"):
        check_served(ServerArgs.of(kv_cache_dtype="fp8_e5m2"), PARTS)


def test_a_deprecated_field_is_served_by_what_serves_its_replacement() -> None:
    args = ServerArgs.of(grpc_mode=True)
    check_served(args, [Part("grpc", ("smg_grpc_mode",))])
    with pytest.raises(ConfigError, match="grpc_mode"):
        check_served(args, PARTS)


def test_a_choice_that_is_known_but_unavailable_is_refused(vendor_registries: Registries) -> None:
    late = AttentionSpec(name="fa3", available=False, unavailable_because="its kernels are not written yet")
    vendor_registries.add("attention", late, "sgl-torch", "0.1.0")
    args = ServerArgs.of(attention_backend="fa3")
    with pytest.raises(ConfigError, match="its kernels are not written yet"):
        check_served(args, PARTS, vendor_registries)
    check_served(ServerArgs.of(attention_backend="my_plugin_backend"), PARTS, vendor_registries)


def test_entries_serve_fields(vendor_registries: Registries) -> None:
    spec = AttentionSpec(name="split", serves=("triton_attention_num_kv_splits",))
    vendor_registries.add("attention", spec, "vendor-dist", "1.2.3")
    served = serving(parts_of(vendor_registries))["triton_attention_num_kv_splits"]
    assert [part.label for part in served.parts] == ["attention split (vendor-dist)"]
    assert "triton_attention_num_kv_splits" not in serving(parts_of(vendor_registries, {"attention": "triton"}))
    with pytest.raises(KeyError, match="no configuration field"):
        serving([Part("x", ("no_field",))])


def test_coverage_counts_every_field_once() -> None:
    found = coverage(parts_of(None))
    names = [name for served, refused in found.values() for name in (*served, *refused)]
    assert sorted(names) == sorted(fields())
    assert {name.partition("=")[0] for served in CORE_PARTS.values() for name in served} <= set(names)


def test_what_the_scheduler_reads_is_served() -> None:
    from sgl_core.engine import limits

    read = set(limits.EngineLimits.__dataclass_fields__) & set(fields())
    assert read <= set(CORE_PARTS["scheduler"])
