"""What the backend is, without importing it: found by the entry point, read by help, validation and selection."""

from sgl_core.api import AttentionSpec, Option

EXAMPLE_ATTENTION = AttentionSpec(
    name="example_attention",
    target="sgl_example_attention.backend:make",
    summary="keys in blocks with a running softmax, in plain torch (an example)",
    aliases=("example",),
    requires=("torch>=2.6",),
    sliding_window=True,
    soft_cap=True,
    kv_dtypes=frozenset({"auto", "float32", "float16", "bfloat16", "bf16"}),
    options=(Option(name="example_attention.block", type=int, default=128, help="Keys per block (at least 1)."),),
)
