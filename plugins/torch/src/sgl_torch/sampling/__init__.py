"""Tokens from logits: the reference sampler, batched over rows that each want something else."""

from .logprobs import LOWEST_LOGPROB, score_rows
from .processors import FindProcessor, LogitProcessor, ProcessorRow
from .sampler import Sampler

__all__ = ["LOWEST_LOGPROB", "FindProcessor", "LogitProcessor", "ProcessorRow", "Sampler", "score_rows"]
