"""Prints, for each backend, how it meets the public JSON-Schema-Test-Suite (draft 2020-12), keyword by keyword, as a Markdown table.

    python plugins/grammar/bench/suite_table.py

Counted are test cases: "exact" ones are judged as the suite judges them; "narrower" ones are valid instances that are not generated (such as
properties in another order than the schema's); "refused" ones belong to schemas that are turned away with a reason and a pointer; "weaker" ones
are invalid instances that would be let through, and there must be none.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

from sgl_core.api import GrammarRequest
from sgl_core.api.grammar import CompiledGrammar, GrammarBackend, GrammarError
from sgl_grammar import backends

DATA = Path(__file__).parents[1] / "tests" / "data" / "draft2020-12.json.gz"
BACKENDS = ("xgrammar", "llguidance", "outlines")
KINDS = ("exact", "narrower", "refused", "weaker")
END = 256


class Bytes:
    """A vocabulary of single bytes."""

    size = 257
    eos_token_ids = (END,)
    special_token_ids = frozenset({END})
    tokenizer_json = ""

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id]) if token_id < END else b""


def takes(compiled: CompiledGrammar, instance: object) -> bool:
    """Whether any usual spelling of the instance is accepted."""
    for ascii_only in (False, True):
        for separators in ((",", ":"), (", ", ": ")):
            text = json.dumps(instance, ensure_ascii=ascii_only, separators=separators)
            matcher = compiled.matcher()
            if all(matcher.accept(token) for token in [*text.encode("utf-8", "surrogatepass"), END]):
                return True
    return False


def count(backend: GrammarBackend, groups: list[dict[str, object]]) -> Counter[str]:
    """How the cases of one keyword come out."""
    out: Counter[str] = Counter()
    for group in groups:
        tests = group["tests"]
        assert isinstance(tests, list)
        try:
            compiled = backend.compile(GrammarRequest(kind="json_schema", text=json.dumps(group["schema"])))
        except GrammarError:
            out["refused"] += len(tests)
            continue
        for instance, valid in tests:
            taken = takes(compiled, instance)
            out["exact" if taken == valid else "narrower" if valid else "weaker"] += 1
    return out


def main() -> int:
    suite = json.loads(gzip.decompress(DATA.read_bytes()))
    made = {name: getattr(backends, name)(Bytes()) for name in BACKENDS}
    print("| keyword | " + " | ".join(f"{name}: {' / '.join(KINDS)}" for name in BACKENDS) + " |")
    print("|---|" + "---|" * len(BACKENDS))
    totals = {name: Counter[str]() for name in BACKENDS}
    for keyword, groups in suite.items():
        cells = []
        for name in BACKENDS:
            found = count(made[name], groups)
            totals[name] += found
            cells.append(" / ".join(str(found[kind]) for kind in KINDS))
        print(f"| {keyword} | " + " | ".join(cells) + " |")
    print("| **all** | " + " | ".join(" / ".join(str(totals[n][k]) for k in KINDS) for n in BACKENDS) + " |")
    return 1 if any(total["weaker"] for total in totals.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
