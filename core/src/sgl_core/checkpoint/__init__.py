"""From a MODEL argument to local files, their configuration and their tokenizer. Torch-free.

``locate`` finds the files (through the ``model_sources`` registry), ``describe`` reads a local folder or GGUF file,
``load_tokenizer`` makes the tokenizer of either.
"""

from .files import CheckpointError, ModelFiles
from .folder import describe
from .sources import DEFAULT_MODEL, locate
from .tokenizer import Tokenizer, TokenizerError, load_tokenizer, other_tokenizer

__all__ = [
    "DEFAULT_MODEL",
    "CheckpointError",
    "ModelFiles",
    "Tokenizer",
    "TokenizerError",
    "describe",
    "load_tokenizer",
    "other_tokenizer",
    "locate",
]
