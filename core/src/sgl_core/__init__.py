"""The control plane of sgl: registries, configuration, scheduling and serving. It never imports torch."""

__version__ = "0.1.0"
