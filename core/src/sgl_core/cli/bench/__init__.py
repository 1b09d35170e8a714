"""``sgl bench``: measurements. ``sgl bench serve`` loads a running server through its OpenAI API."""

from __future__ import annotations

import sys
from collections.abc import Sequence

USAGE = """\
usage: sgl bench serve [--url URL] [options]

  serve   requests against a running server: time to first token, inter-token latency, throughput

`sgl bench serve --help` shows its options."""


def main(argv: Sequence[str]) -> int:
    """Run a benchmark; 2 for a wrong command line."""
    words = list(argv)
    if words[:1] == ["serve"]:
        from .serve import main as serve

        return serve(words[1:])
    asked = not words or words[0] in ("-h", "--help")
    print(USAGE, file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2
