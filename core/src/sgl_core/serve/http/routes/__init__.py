"""One file per group of routes; each offers ``routes()``."""
