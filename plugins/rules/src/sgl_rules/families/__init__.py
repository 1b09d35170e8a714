"""Rules that belong to one model family: one file per family."""
