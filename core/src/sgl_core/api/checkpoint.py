"""What a loader of weights reads: a checkpoint's files and their headers. Import it by name; the api does not load it."""

from sgl_core.checkpoint.files import CheckpointError, ModelFiles
from sgl_core.checkpoint.folder import describe
from sgl_core.checkpoint.gguf_file import GgufError, GgufFile, GgufTensor, read_gguf
from sgl_core.checkpoint.gguf_types import GgmlType
from sgl_core.checkpoint.safetensors_header import SafetensorsEntry, SafetensorsError, read_safetensors_header

__all__ = [
    "CheckpointError",
    "GgmlType",
    "GgufError",
    "GgufFile",
    "GgufTensor",
    "ModelFiles",
    "SafetensorsEntry",
    "SafetensorsError",
    "describe",
    "read_gguf",
    "read_safetensors_header",
]
