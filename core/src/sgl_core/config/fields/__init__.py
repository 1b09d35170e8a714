"""Every field, once. ``SUBJECTS`` is the whole declaration in the order in which help and documentation show it."""

from __future__ import annotations

from functools import cache

from ..declare import Field, RetiredFlag, Subject, fields_of
from .comm import Communication
from .debug import Debug
from .delay import PrefillDelay
from .device import Device
from .disaggregation import DecoupledSpeculation, Disaggregation, EncoderDisaggregation, Multiplexing
from .features import Deterministic, DiffusionLlm, Features, Offload, Overlap
from .graphs import Graphs
from .hicache import ExternalCache, HierarchicalCache, SparseCache
from .http import Http, Tls
from .interface import Constrained, Interface, Streaming
from .kernels import Kernels
from .logs import Logs
from .lora import Lora
from .mamba import Mamba
from .memory import Memory
from .metrics import Metrics
from .model import Model
from .moe import CpuExperts, Moe
from .multimodal import Multimodal
from .own import JumpForward, Own, Plugins, PrefillStep, Server, SeveralModels
from .parallel import ExpertRanks, Parallel
from .quantization import Quantization
from .schedule import Schedule
from .speculative import Ngram, Speculative
from .tokenizer import Tokenizer
from .weights import WeightCache, Weights

SUBJECTS: tuple[type[Subject], ...] = (
    Model,
    Quantization,
    Weights,
    WeightCache,
    Tokenizer,
    Http,
    Server,
    SeveralModels,
    Tls,
    Interface,
    Constrained,
    JumpForward,
    PrefillStep,
    Streaming,
    Schedule,
    PrefillDelay,
    Memory,
    HierarchicalCache,
    SparseCache,
    ExternalCache,
    Parallel,
    ExpertRanks,
    Device,
    Logs,
    Metrics,
    Debug,
    Kernels,
    Graphs,
    Communication,
    Moe,
    CpuExperts,
    Mamba,
    Features,
    Overlap,
    Offload,
    DiffusionLlm,
    Deterministic,
    Speculative,
    Ngram,
    Multimodal,
    Lora,
    Disaggregation,
    EncoderDisaggregation,
    Multiplexing,
    DecoupledSpeculation,
    Plugins,
    Own,
)

RETIRED_FLAGS = (
    RetiredFlag(
        "--enable-expert-distribution-metrics",
        "use --expert-balancedness-report-mode with off, server_log, prometheus or both",
        refused=True,
    ),
    RetiredFlag("--prefill-round-robin-balance", "it has no effect any more; leave it out"),
    RetiredFlag("--collect-tokens-histogram", "token histograms come with --enable-metrics; leave it out"),
)


@cache
def fields() -> dict[str, Field]:
    """Every field by name, in the order of declaration. Raises ValueError where a name is declared twice."""
    table: dict[str, Field] = {}
    for subject in SUBJECTS:
        for declared in fields_of(subject):
            if declared.name in table:
                raise ValueError(
                    f"field {declared.name} is declared twice: {table[declared.name].subject}, {declared.subject}"
                )
            table[declared.name] = declared
    return table
