"""The public JSON-Schema-Test-Suite: a schema is held exactly or refused by name; never is an invalid instance let through."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from sgl_core.api import GrammarRequest
from sgl_core.api.grammar import GrammarError

DATA = Path(__file__).parent / "data" / "draft2020-12.json.gz"
SUITE = json.loads(gzip.decompress(DATA.read_bytes()))


def spellings(instance):
    for ascii_only in (False, True):
        for separators in ((",", ":"), (", ", ": ")):
            text = json.dumps(instance, ensure_ascii=ascii_only, separators=separators)
            yield text.encode("utf-8", "surrogatepass")


def walk(compiled, text):
    """Like the engine: one accept per token."""
    matcher = compiled.matcher()
    return all(matcher.accept(token) for token in [*text, 256])


@pytest.mark.parametrize("keyword", SUITE)
def test_no_schema_is_weakened(keyword, backend):
    for group in SUITE[keyword]:
        try:
            compiled = backend.compile(GrammarRequest(kind="json_schema", text=json.dumps(group["schema"])))
        except GrammarError:
            continue
        for instance, valid in group["tests"]:
            if not valid:
                taken = [text for text in spellings(instance) if walk(compiled, text)]
                assert not taken, (group["schema"], instance)


def test_the_suite_is_mostly_served(backend):
    served = 0
    for group in SUITE["properties"] + SUITE["items"] + SUITE["enum"] + SUITE["required"]:
        try:
            backend.compile(GrammarRequest(kind="json_schema", text=json.dumps(group["schema"])))
            served += 1
        except GrammarError:
            pass
    assert served >= 20
