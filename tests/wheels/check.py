"""Proves the built wheels in clean virtual environments: sgl-core alone, then sgl-core with sgl-cpu serving.

Usage: python tests/wheels/check.py DIST_FOLDER. Exits non-zero with the failing command's output.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"
START_LIMIT_S = 180


def run(*command: str | Path, code: int = 0) -> str:
    """Run a command to its end; return its output; stop the script when the exit status is not ``code``."""
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, timeout=900, cwd=tempfile.gettempdir()
    )
    if done.returncode != code:
        raise SystemExit(
            f"$ {' '.join(map(str, command))}\nexit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
        )
    return done.stdout + done.stderr


def environment(folder: Path, wheels: Path, *dists: str) -> Path:
    """A new virtual environment with the dists installed from the wheels; returns its bin folder."""
    run(sys.executable, "-m", "venv", folder)
    pip = [folder / "bin" / "pip", "--disable-pip-version-check", "install", "-q"]
    run(*pip, "-c", CONSTRAINTS, "--find-links", wheels, *dists)
    return folder / "bin"


def expect(what: str, condition: bool) -> None:
    if not condition:
        raise SystemExit(f"FAILED: {what}")
    print(f"ok    {what}", flush=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def core_alone(bin_dir: Path) -> None:
    sgl = bin_dir / "sgl"
    listed = json.loads(run(bin_dir / "pip", "list", "--format=json").split("\n[notice]")[0])
    expect("torch is not installed beside sgl-core", all(d["name"] != "torch" for d in listed))
    expect("sgl --help lists the commands", "serve" in run(sgl, "--help"))
    expect("sgl plugin list --json is JSON", bool(json.loads(run(sgl, "plugin", "list", "--json"))))
    explained = run(sgl, "explain", "LlamaForCausalLM", "--facts", "h100", "--json")
    expect("sgl explain resolves a model for another machine", bool(json.loads(explained)))
    said = run(sgl, "serve", code=1)
    expect("sgl serve names the package to install", "sgl-cpu" in said)


def post(url: str, body: dict[str, object]) -> dict[str, object]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return dict(json.load(answer))


def core_and_cpu(bin_dir: Path) -> None:
    port = free_port()
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (the server writes to it until it ends)
    server = subprocess.Popen(
        [bin_dir / "sgl", "serve", "--port", str(port)],
        stdout=log,
        stderr=log,
        cwd=tempfile.gettempdir(),
        env=os.environ,
    )
    try:
        body = {"model": "default", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
        limit = time.monotonic() + START_LIMIT_S
        answer: dict[str, object] | None = None
        while answer is None and time.monotonic() < limit and server.poll() is None:
            try:
                answer = post(f"http://127.0.0.1:{port}/v1/chat/completions", body)
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
        if answer is None:
            log.seek(0)
            raise SystemExit(f"FAILED: sgl serve did not answer\n{log.read()}")
        expect("sgl serve answers a chat", bool(answer["choices"]))
        server.send_signal(signal.SIGTERM)
        expect("sgl serve ends with status 0 on SIGTERM", server.wait(30) == 0)
    finally:
        if server.poll() is None:
            server.kill()


def main() -> None:
    wheels = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        core_alone(environment(Path(folder) / "core", wheels, "sgl-core"))
        core_and_cpu(environment(Path(folder) / "cpu", wheels, "sgl-core", "sgl-cpu"))


if __name__ == "__main__":
    main()
