"""Constrained decoding of sgl: grammar backends behind one contract that never weakens a constraint."""
