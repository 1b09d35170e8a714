"""The configuration override rules of sgl, one file per family or subject."""
