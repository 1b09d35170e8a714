"""``sgl bench``: measurements. ``serve`` loads one running server through its OpenAI API, ``compare`` several in turns,
``roofline`` the model on this machine against the machine's limits."""

from __future__ import annotations

import sys
from collections.abc import Sequence

USAGE = """\
usage: sgl bench serve [--url URL] [options]
       sgl bench compare URL URL ... [options]
       sgl bench roofline [MODEL] [options of sgl serve]

  serve     requests against a running server: time to first token, inter-token latency, throughput
  compare   the same load on several servers in turns, and the first one's figures against the others'
  roofline  what this machine allows, and the share of it that decode, prefill, attention and sampling reach

`sgl bench serve --help` and so on show their options."""


def main(argv: Sequence[str]) -> int:
    """Run a benchmark; 2 for a wrong command line."""
    words = list(argv)
    if words[:1] == ["serve"]:
        from .serve import main as serve

        return serve(words[1:])
    if words[:1] == ["compare"]:
        from .compare import main as compare

        return compare(words[1:])
    if words[:1] == ["roofline"]:
        from .roofline import main as roofline

        return roofline(words[1:])
    asked = not words or words[0] in ("-h", "--help")
    print(USAGE, file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2
