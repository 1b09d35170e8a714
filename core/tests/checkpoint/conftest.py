"""Tiny checkpoints for the tests of this folder: GGUF files written with the gguf package, tokenizers trained on the spot."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and the dog doesn't mind at all.",
    "In 2024 there were 12345 foxes; they'll be 67890 by 2030.",
    "def main():\n    return 'hello world'\n\n\nprint(main())\n",
    "Übergröße naïve café — 東京タワー 世界 Здравствуйте мир नमस्ते مرحبا 🤣🏳️‍🌈",
]

MakeGguf = Callable[..., Path]


@pytest.fixture
def make_gguf(tmp_path: Path) -> MakeGguf:
    """``make_gguf(arch="llama", metadata={...}, tensors={...})`` writes a model of two tiny layers' worth of metadata."""

    def make(
        arch: str = "llama",
        metadata: dict[str, Any] | None = None,
        tensors: dict[str, np.ndarray] | None = None,
        name: str = "tiny.gguf",
        vocab: int = 8,
    ) -> Path:
        path = tmp_path / name
        writer = GGUFWriter(str(path), arch)
        values: dict[str, Any] = {
            f"{arch}.block_count": 2,
            f"{arch}.context_length": 512,
            f"{arch}.embedding_length": 32,
            f"{arch}.feed_forward_length": 64,
            f"{arch}.attention.head_count": 4,
            f"{arch}.attention.head_count_kv": 2,
            f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
            f"{arch}.rope.freq_base": 50000.0,
        }
        values |= metadata or {}
        for key, value in values.items():
            add_value(writer, key, value)
        contents = {"token_embd.weight": np.zeros((vocab, 32), np.float32)} | (tensors or {})
        for tensor, data in contents.items():
            writer.add_tensor(tensor, data)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return make


def add_value(writer: GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


@pytest.fixture(scope="session")
def byte_bpe() -> Tokenizer:
    """A byte-level BPE of 400 tokens that splits digits one by one, with two chat tokens and BOS."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|bos|>", "<|im_start|>", "<|im_end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


@pytest.fixture
def hf_folder(tmp_path: Path, byte_bpe: Tokenizer) -> Path:
    """A Hugging Face folder with a tokenizer and configs, without weights."""
    root = tmp_path / "model"
    root.mkdir()
    byte_bpe.save(str(root / "tokenizer.json"))
    write_json(root / "config.json", {"architectures": ["LlamaForCausalLM"], "vocab_size": 416, "eos_token_id": 2})
    write_json(
        root / "tokenizer_config.json",
        {
            "bos_token": "<|bos|>",
            "eos_token": {"content": "<|im_end|>", "__type": "AddedToken"},
            "chat_template": "{{ messages }}",
        },
    )
    return root


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
