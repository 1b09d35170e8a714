"""Model architectures of sgl, one file per family."""
