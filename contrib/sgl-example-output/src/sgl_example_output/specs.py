"""What the two implementations are, without importing them."""

from sgl_core.api import GrammarSpec, ParserSpec

PARSER = ParserSpec(
    name="example_calls",
    target="sgl_example_output.parser:ExampleCalls",
    summary="calls written as <<call name {...}>>",
    template_markers=("<<call ",),
)

GRAMMAR = GrammarSpec(
    name="example_words",
    target="sgl_example_output.grammar:WordsBackend",
    summary="holds an answer to one of several texts, and to nothing else",
    kinds=frozenset({"choice", "regex"}),
)
