"""A tool-call parser and a grammar backend from outside: both are chosen by name, the parser by `auto` as well."""
