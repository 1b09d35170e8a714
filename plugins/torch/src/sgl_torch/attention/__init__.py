"""Attention backends: the contract and the torch implementation."""

from .base import AttentionBackend, AttentionContext

__all__ = ["AttentionBackend", "AttentionContext"]
