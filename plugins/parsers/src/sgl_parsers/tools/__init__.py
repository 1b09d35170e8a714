"""Tool-call parsers: one file per family, its markers as data and a small reader."""
