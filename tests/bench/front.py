"""The front alone: many chat streams over HTTP from the null worker, nothing lost or mixed, and what each token costs.

    python tests/bench/front.py                                    # 500 streams, as fast as they go
    python tests/bench/front.py --step-ms 20                       # ... paced: 500 / 20 ms = 25,000 tokens/s are offered
    python tests/bench/front.py --interval 8
    python tests/bench/front.py --streams 1 --step-ms 5 --tokens 600

Prompts are distinct, and the null worker's answer is a function of the prompt: every stream is compared with it after the clock.
CPU time and switches are those of the processes from the first request to the last byte. "Delivery" is the front's own latency: from the
worker's message to the moment when the last of the message's streams was written (the histogram sgl:delivery_seconds), while all
streams run.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import stream_load
import uvloop
from bars import Row, at_least, failed, table, told
from processes import Running, free_port, serving, weigh

from sgl_core.checkpoint import DEFAULT_MODEL, load_tokenizer, locate
from sgl_core.registry import Registries
from sgl_core.serve.core.detokenize import DetokenizerFactory
from sgl_core.testing.engine_driver import oracle

CHAT = "/v1/chat/completions"
WANTED = 20_000


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--streams", type=int, default=500)
    out.add_argument("--tokens", type=int, default=200, help="tokens of each answer (default: %(default)s)")
    out.add_argument("--interval", type=int, default=1, help="stream_interval of the requests (default: %(default)s)")
    out.add_argument("--step-ms", type=float, default=0.0, help="what a step of the null worker takes")
    out.add_argument("--rounds", type=int, default=1)
    out.add_argument("--nice", type=int, default=0, help="weight of server and client, -20 to 19 (default: 0)")
    out.add_argument("--model", default=DEFAULT_MODEL, help="whose tokenizer (default: %(default)s)")
    out.add_argument("--args", default="", help="more options for sgl serve, as one word")
    out.add_argument("--json", metavar="FILE")
    return out


def bodies(options: argparse.Namespace, seed: int) -> list[dict[str, Any]]:
    """Distinct prompts. Answers have their whole length."""
    common = {"stream": True, "stream_options": {"include_usage": True}, "stream_interval": options.interval}
    common |= {"max_tokens": options.tokens, "temperature": 0, "ignore_eos": True}
    asked = [f"Round {seed}, question {number}: what comes next?" for number in range(options.streams)]
    return [{**common, "messages": [{"role": "user", "content": text}]} for text in asked]


class Wanted:
    """The one right answer to each prompt."""

    def __init__(self, model: str, url: str) -> None:
        self._tokenizer = load_tokenizer(locate(model, Registries.discover()))
        self._texts = DetokenizerFactory(self._tokenizer)
        self._url = url

    def text(self, body: dict[str, Any]) -> str:
        asked = {"messages": body["messages"], "add_generation_prompt": True}
        request = urllib.request.Request(
            self._url + "/tokenize", json.dumps(asked).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            prompt = json.load(answer)["tokens"]
        return self._texts.text(oracle(prompt, body["max_tokens"], self._tokenizer.size))


class Spent:
    """CPU seconds and context switches of a process so far."""

    def __init__(self, pid: int) -> None:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        self.cpu = (int(fields[11]) + int(fields[12])) / 100
        self.switches = 0
        for task in Path(f"/proc/{pid}/task").iterdir():
            text = (task / "status").read_text()
            self.switches += sum(int(n) for n in re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M))


def worker_of(pid: int) -> int:
    """The worker process of a server."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(max(children, key=lambda child: "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()))


def deliveries(url: str) -> list[tuple[float, float]]:
    """(upper bound in seconds, messages so far) of the histogram."""
    with urllib.request.urlopen(url + "/metrics", timeout=60) as answer:
        found = re.findall(r'^sgl:delivery_seconds_bucket\{le="([^"]+)".*\} (\S+)$', answer.read().decode(), re.M)
    return [(float(bound), float(count)) for bound, count in found]


def quantile(before: list[tuple[float, float]], after: list[tuple[float, float]], part: float) -> float:
    """Of the messages between two readings, in seconds, linear inside a bucket."""
    grown = [(bound, count - (before[at][1] if before else 0)) for at, (bound, count) in enumerate(after)]
    if not grown or not grown[-1][1]:
        return float("nan")
    low, seen, rank = 0.0, 0.0, part * grown[-1][1]
    for bound, count in grown:
        if count >= rank:
            return low + (bound - low) * (rank - seen) / max(count - seen, 1e-9)
        low, seen = bound, count
    return low


def measure(server: Running, options: argparse.Namespace, seed: int, wanted: Wanted) -> dict[str, float]:
    """One round."""
    load = bodies(options, seed)
    port = int(server.url.rpartition(":")[2])
    pids = {"front": server.pid, "worker": worker_of(server.pid)}
    early: list[tuple[float, float]] = []
    before = {name: Spent(pid) for name, pid in pids.items()}
    begun, own = time.perf_counter(), time.process_time()
    streams = uvloop.run(stream_load.play("127.0.0.1", port, CHAT, load, lambda: early.extend(deliveries(server.url))))
    seconds, client = time.perf_counter() - begun, time.process_time() - own
    after = {name: Spent(pid) for name, pid in pids.items()}
    late = deliveries(server.url)
    reads = [stream_load.read(stream) for stream in streams]
    wrong = [
        f"stream {number}: {found.fault or 'another text'}"
        for number, (found, body) in enumerate(zip(reads, load, strict=True))
        if found.fault or found.tokens != options.tokens or found.text != wanted.text(body)
    ]
    for line in wrong[:3]:
        print(line, file=sys.stderr)
    tokens = options.streams * options.tokens
    firsts = sorted(stream.times[0] - stream.sent for stream in streams if stream.times)
    begin = max(stream.times[0] for stream in streams if stream.times)
    steady = [moment for stream in streams for moment in stream.times if moment >= begin]
    gaps = sorted(b - a for stream in streams for a, b in zip(stream.times[1:], stream.times[2:], strict=False))
    return {
        "wrong": len(wrong),
        "tokens_per_s": tokens / seconds,
        "reads_per_s_all_running": len(steady) / (max(steady) - begin) if len(steady) > 1 else 0.0,
        "tokens_per_event": tokens / max(sum(found.events for found in reads), 1),
        "first_p99_ms": firsts[int(len(firsts) * 0.99)] * 1e3,
        "gap_p50_ms": gaps[len(gaps) // 2] * 1e3,
        "gap_p99_ms": gaps[int(len(gaps) * 0.99)] * 1e3,
        "delivery_p50_ms": quantile(early, late, 0.5) * 1e3,
        "delivery_p99_ms": quantile(early, late, 0.99) * 1e3,
        **{f"{name}_us_per_token": (after[name].cpu - before[name].cpu) / tokens * 1e6 for name in pids},
        **{f"{name}_switches_per_token": (after[name].switches - before[name].switches) / tokens for name in pids},
        "client_us_per_token": client / tokens * 1e6,
        "client_share": client / seconds,
    }


def rows(results: Sequence[dict[str, float]], options: argparse.Namespace) -> list[Row]:
    best = max(results, key=lambda result: result["tokens_per_s"])
    wrong = int(sum(result["wrong"] for result in results))
    out = [Row("streams lost, cut or mixed", str(wrong), "0", wrong == 0)]
    name = f"{options.streams} streams, stream_interval {options.interval}, tokens/s, best of {len(results)}"
    offered = options.streams / options.step_ms * 1e3 if options.step_ms else float("inf")
    if options.streams >= 500 and offered > WANTED:
        out.append(at_least(name, best["tokens_per_s"], WANTED))
    else:
        out.append(told(name, f"{best['tokens_per_s']:,.0f}"))
    for key, value in best.items():
        if key not in ("wrong", "tokens_per_s"):
            out.append(told(key.replace("_", " "), f"{value:,.2f}"))
    return out


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    weigh(0, options.nice)
    port = free_port()
    room = options.streams * (options.tokens + 256)
    command = [sys.executable, "-m", "sgl_core", "serve", options.model, "--device", "null", "--port", str(port)]
    command += ["--max-running-requests", str(options.streams), "--max-total-tokens", str(room)]
    command += ["--plugin-option", f"null.step_seconds={options.step_ms / 1e3}", "--log-level-http", "warning"]
    with tempfile.TemporaryDirectory(prefix="sgl-front-") as folder:
        log = Path(folder) / "server.log"
        with serving("sgl", command + options.args.split(), port, log, nice=options.nice) as server:
            wanted = Wanted(options.model, server.url)
            results = [measure(server, options, seed, wanted) for seed in range(options.rounds)]
    found = rows(results, options)
    print(table(found))
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=2))
    return 1 if failed(found) else 0


if __name__ == "__main__":
    sys.exit(main())
