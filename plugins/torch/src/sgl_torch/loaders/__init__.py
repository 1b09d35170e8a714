"""Weights of a checkpoint as (Hugging Face name, tensor) pairs, whatever format the files have."""

from .iterate import LoadFormat, iterate
from .quantized import LoadError, QuantizedTensor

__all__ = ["LoadError", "LoadFormat", "QuantizedTensor", "iterate"]
