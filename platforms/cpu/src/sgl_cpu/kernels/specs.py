"""The entries of sgl-ops' kernels in the registries of ops, attention backends and samplers; light to import."""

from __future__ import annotations

from sgl_core.api import AttentionSpec, ChoiceSpec, OpSpec

ATTENTION = AttentionSpec(
    name="sgl_ops",
    target="sgl_cpu.kernels.attention:make",
    summary="C++ attention over pages; queries that share a key head or a prefix read its keys once",
    platforms=("cpu",),
    requires=("sgl-ops",),
    kv_dtypes=frozenset({"auto", "float32", "float16", "bfloat16", "bf16", "fp8_e4m3", "int8"}),
    sliding_window=True,
    sinks=True,
    soft_cap=True,
    graph=True,
    flags=frozenset({"deterministic", "chunked_prefix"}),
    serves=(
        "disable_decode_cuda_graph",
        "disable_cuda_graph",
        "disable_cuda_graph_padding",
        "cuda_graph_backend_decode=full|breakable|disabled",
        "cuda_graph_max_bs_decode",
        "cuda_graph_bs_decode",
        "cpu_exact_activations",
    ),
)

SAMPLER = ChoiceSpec(
    name="sgl_ops",
    target="sgl_cpu.kernels.sampler:KernelSampler",
    summary="C++ sampling over the batch, without sorting the vocabulary",
    platforms=("cpu",),
    requires=("sgl-ops",),
)


def _op(op: str, target: str, summary: str) -> OpSpec:
    return OpSpec(
        name=f"sgl_ops_{op}",
        op=op,
        target=f"sgl_cpu.kernels.{target}",
        summary=summary,
        platforms=("cpu",),
        requires=("sgl-ops",),
        priority=10,
    )


EMBEDDING = _op("embedding", "matrices:KernelEmbedding", "rows of a packed matrix")
LINEAR = _op("linear", "matrices:KernelLinear", "products with packed weights; quantized blocks stay as they are")
RMS_NORM = _op("rms_norm", "rows:KernelRmsNorm", "root-mean-square norm")
ADD_RMS_NORM = _op("add_rms_norm", "rows:KernelAddRmsNorm", "residual addition and norm in one pass")
ROPE = _op("rope", "rows:KernelRope", "rotary positions")
SILU_MUL = _op("silu_mul", "rows:make_silu_mul", "silu(gate) * up")
GELU_MUL = _op("gelu_mul", "rows:make_gelu_mul", "gelu(gate) * up")
