"""GLM 4 MoE: TF32 router, experts on Blackwell. (GLM with sparse attention follows the DeepSeek rules.)"""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, rule, suggest

from ..asking import fill, in_order, quantization_unset
from ..machine import is_sm100

GLM4_MOE = ("Glm4MoeForCausalLM",)


@rule(
    stage="model",
    architectures=GLM4_MOE,
    reads=("quantization", "moe_runner_backend", "moe_a2a_backend", "enable_tf32_matmul"),
    writes=("quantization", "moe_runner_backend", "enable_tf32_matmul"),
    before=("state_cache",),
)
def glm4_experts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The router multiplies in TF32; on SM100 NVFP4 and plain experts use the TensorRT-LLM runner."""
    if not view.enable_tf32_matmul:
        yield force("enable_tf32_matmul", True, "the router's product is in single precision")
    if not is_sm100(facts):
        return
    method = view.quantization
    if quantization_unset(view) and model.quant_method is not None:
        method = model.quant_method
        yield suggest("quantization", method, "the checkpoint says so")
    if method in (None, "modelopt_fp4") and view.moe_a2a_backend == "none" and view.moe_runner_backend == "auto":
        yield fill(view, "moe_runner_backend", "flashinfer_trtllm", "the fastest runner for these experts on this GPU")


RULES = in_order(glm4_experts)
