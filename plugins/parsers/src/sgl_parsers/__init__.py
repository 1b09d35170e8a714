"""Tool-call and reasoning parsers of sgl, one file per model family."""
