"""What the architecture is, without importing torch. The entry's name is the one in the checkpoint's config.json."""

from sgl_core.api import ModelSpec

STARCODER2 = ModelSpec(
    name="Starcoder2ForCausalLM",
    target="sgl_example_model.starcoder2:Starcoder2ForCausalLM",
    summary="StarCoder2: grouped-query attention, layer norms and biases (an example)",
    requires=("torch>=2.6",),
    stacked_weights={"qkv_proj": ("q_proj", "k_proj", "v_proj")},
)
