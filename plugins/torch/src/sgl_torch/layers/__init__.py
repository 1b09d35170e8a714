"""The layers models are built of. Their arithmetic goes through the bound ops."""

from .activation import GatedActivation, gated_activation
from .attention import Attention
from .bidirectional import BidirectionalAttention, RowGroups, rows_by_length
from .embedding import Embedding, LMHead
from .linear import GateUpLinear, Linear, QKVLinear
from .norm import RMSNorm
from .quant import LinearMethod, PackedMethod, PackedWeights, QuantConfig
from .rope_scaling import RopeParameters, rope_parameters
from .rotary import RotaryEmbedding

__all__ = [
    "Attention",
    "BidirectionalAttention",
    "Embedding",
    "GateUpLinear",
    "GatedActivation",
    "LMHead",
    "Linear",
    "LinearMethod",
    "PackedMethod",
    "PackedWeights",
    "QKVLinear",
    "QuantConfig",
    "RMSNorm",
    "RopeParameters",
    "RotaryEmbedding",
    "RowGroups",
    "gated_activation",
    "rope_parameters",
    "rows_by_length",
]
