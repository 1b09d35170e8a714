"""What a loader of weights reads: a checkpoint's files and their headers. Import it by name; the api does not load it."""

from sgl_core.checkpoint.files import CheckpointError, ModelFiles
from sgl_core.checkpoint.folder import describe, find_weights
from sgl_core.checkpoint.gguf_file import GgufError, GgufFile, GgufTensor, read_gguf
from sgl_core.checkpoint.gguf_types import GGML_TYPES, GgmlType
from sgl_core.checkpoint.safetensors_header import SafetensorsEntry, SafetensorsError, read_safetensors_header

__all__ = [
    "GGML_TYPES",
    "CheckpointError",
    "GgmlType",
    "GgufError",
    "GgufFile",
    "GgufTensor",
    "ModelFiles",
    "SafetensorsEntry",
    "SafetensorsError",
    "describe",
    "find_weights",
    "read_gguf",
    "read_safetensors_header",
]
