"""The specs of the grammar backends."""

from sgl_core.api import GrammarSpec

_ALL = frozenset({"json_object", "json_schema", "regex", "ebnf", "choice", "tool_calls", "structural_tag"})

XGRAMMAR = GrammarSpec(
    name="xgrammar",
    target="sgl_grammar.backends:xgrammar",
    summary="xgrammar for what it holds exactly, llguidance for the rest",
    kinds=_ALL,
    requires=("xgrammar>=0.2.5",),
)
LLGUIDANCE = GrammarSpec(
    name="llguidance",
    target="sgl_grammar.backends:llguidance",
    summary="Earley parser over lazily built lexers; every schema feature is exact or refused",
    kinds=_ALL,
    requires=("llguidance>=1.7",),
)
OUTLINES = GrammarSpec(
    name="outlines",
    target="sgl_grammar.backends:outlines",
    summary="regular expressions as token automata, llguidance for the rest",
    kinds=_ALL,
    requires=("outlines-core>=0.2.11",),
)
