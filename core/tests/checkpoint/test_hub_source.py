"""What is downloaded of a hub repository, given the list of its files."""

from __future__ import annotations

import pytest

from sgl_core.checkpoint import CheckpointError
from sgl_core.checkpoint.hub_source import _matching, _patterns

GGUFS = ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-m-f16.gguf"]


def test_safetensors_before_pickles_and_never_both() -> None:
    names = ["config.json", "model.safetensors", "consolidated.safetensors", "pytorch_model.bin", "README.md"]
    assert _patterns("o/n", names, "")[-1] == "model.safetensors"
    assert "pytorch_model.bin" not in _patterns("o/n", names, "")
    assert "pytorch_model.bin" in _patterns("o/n", [name for name in names if "safetensors" not in name], "")


def test_gguf_repository_needs_a_choice() -> None:
    with pytest.raises(CheckpointError, match=r"several GGUF files; choose one as o/n:PART from m-Q4_K_M\.gguf"):
        _patterns("o/n", GGUFS, "")
    assert _patterns("o/n", GGUFS, "q8_0")[-1] == "m-Q8_0.gguf"
    assert _patterns("o/n", GGUFS[:1], "")[-1] == "m-Q4_K_M.gguf"


def test_part_matches_whole_name_first_and_shards_together() -> None:
    assert _matching("o/n", ["a.gguf", "a.gguf.b.gguf"], "a.gguf") == ["a.gguf"]
    shards = ["q4-00001-of-00002.gguf", "q4-00002-of-00002.gguf"]
    assert _matching("o/n", shards, "q4") == shards
    with pytest.raises(CheckpointError, match="no GGUF file with 'q6'"):
        _matching("o/n", GGUFS, "q6")
    with pytest.raises(CheckpointError, match="fits several files"):
        _matching("o/n", GGUFS[:2], "m-")
