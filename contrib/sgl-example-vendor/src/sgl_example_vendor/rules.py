"""What the vendor's value stands for on each machine. A rule is a pure function; `sgl explain` shows it with its reason."""

from collections.abc import Iterator

from sgl_core.api import Declaration, Facts, ModelInfo, View, force, rule


@rule(stage="attention", reads=("attention_backend",), writes=("attention_backend",))
def vendor_attention(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The vendor's attention is torch's own on a CPU and Triton's elsewhere."""
    if view.attention_backend == "example_vendor":
        best = "torch_native" if facts.platform == "cpu" else "triton"
        yield force("attention_backend", best, because=f"example_vendor recommends {best} on {facts.platform}")


RULES = (vendor_attention,)
