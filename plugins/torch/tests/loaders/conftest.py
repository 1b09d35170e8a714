"""Tiny checkpoints in every format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 32,
    "vocab_size": 8,
}


@pytest.fixture
def hf_root(tmp_path: Path) -> Path:
    root = tmp_path / "model"
    root.mkdir()
    (root / "config.json").write_text(json.dumps(CONFIG))
    return root


@pytest.fixture
def write_gguf(tmp_path: Path) -> Callable[..., Path]:
    """``write_gguf({name: array or (bytes, type)}, arch="llama")``: a file with 4 heads, 2 KV heads, hidden size 32."""

    def write(tensors: dict[str, Any], arch: str = "llama", name: str = "tiny.gguf") -> Path:
        path = tmp_path / name
        writer = GGUFWriter(str(path), arch)
        for key, value in {
            "block_count": 1,
            "context_length": 64,
            "embedding_length": 32,
            "feed_forward_length": 64,
            "attention.head_count": 4,
            "attention.head_count_kv": 2,
        }.items():
            writer.add_uint32(f"{arch}.{key}", value)
        for tensor, content in {"token_embd.weight": np.zeros((8, 32), np.float32), **tensors}.items():
            if isinstance(content, tuple):
                writer.add_tensor(tensor, content[0], raw_dtype=GGMLQuantizationType[content[1]])
            else:
                writer.add_tensor(tensor, content)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write
