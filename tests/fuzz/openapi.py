"""Runs schemathesis over the server's OpenAPI document: ``python tests/fuzz/openapi.py --seconds 1200``.

The server is on the null platform, so examples cost little; the routes of administration stay out, because they end or pause it. Ends with
schemathesis' own exit status: 0 where no example met a 5xx other than 501 or an answer that the document does not describe. Needs ``make clients``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

from sgl_core.serve.testing import save_model

sys.path.insert(0, str(Path(__file__).parents[1] / "clients" / "venvs"))
from environments import program

CONTEXT = 256
"""Tokens: an answer without a limit fills it, so the smaller it is the more examples are tried."""
CONFIG = Path(__file__).with_name("schemathesis.toml")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)


@contextlib.contextmanager
def null_server(folder: Path) -> Iterator[str]:
    """A server of a model without weights, with files and batches; yields its address."""
    model = save_model(folder / "model", context_length=CONTEXT)
    words = [sys.executable, "-m", "sgl_core", "serve", str(model), "--device", "null", "--port", "0"]
    words += ["--file-storage-path", str(folder / "files"), "--log-level-http", "error"]
    log = (folder / "server.log").open("w+b")
    process = subprocess.Popen(words, stderr=subprocess.PIPE, env={**os.environ, "TQDM_DISABLE": "1"})
    assert process.stderr is not None
    try:
        yield _address(process.stderr, log)
    finally:
        process.terminate()
        process.wait(60)


def _address(stderr, log) -> str:
    for line in stderr:
        log.write(line)
        if b"listening" in line:
            rest = threading.Thread(target=lambda: [log.write(more) for more in stderr], daemon=True)
            rest.start()
            return next(word for word in line.decode().split() if word.startswith("http"))
    log.seek(0)
    raise SystemExit(log.read().decode())


def main() -> int:
    """Start the server, run, print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=1200, help="how long examples are tried")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--url", help="a server that runs, instead of one of our own")
    parser.add_argument("more", nargs="*", help="options for schemathesis, after --")
    asked = parser.parse_args()
    tool = program("schemathesis", "schemathesis")
    if not tool.exists():
        parser.exit(2, "schemathesis is not installed: make clients\n")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        url = asked.url or stack.enter_context(null_server(Path(folder)))
        words = [
            str(tool),
            "--config-file",
            str(CONFIG),
            "run",
            f"{url}/openapi.json",
            "--max-time",
            str(asked.seconds),
            "--seed",
            str(asked.seed),
        ]
        words += ["--exclude-tag", "Administration", "--checks", ",".join(CHECKS), "--workers", "1"]
        words += ["--continue-on-failure", "--request-timeout", "60", "--generation-database", "none", "--no-color"]
        status = subprocess.run([*words, *asked.more], check=False, cwd=folder).returncode
        with urlopen(f"{url}/health_generate", timeout=30) as answer:
            assert answer.status == 200, "the server does not generate any more"
    return status


if __name__ == "__main__":
    sys.exit(main())
