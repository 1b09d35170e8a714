"""The load formats of this package, apart from the loaders, which import torch. ``auto`` is no entry: it means the format of the files."""

from __future__ import annotations

from sgl_core.api import LoadFormatSpec

SAFETENSORS = LoadFormatSpec(
    name="safetensors",
    target="sgl_torch.loaders.safetensors_files:load",
    summary="*.safetensors, single or sharded by an index",
    suffixes=(".safetensors",),
    requires=("safetensors>=0.4.5",),
)
PT = LoadFormatSpec(
    name="pt",
    target="sgl_torch.loaders.pytorch_files:load",
    summary="pytorch_model.bin, *.pt and *.pth, read without running their code",
    suffixes=(".bin", ".pt", ".pth"),
)
GGUF = LoadFormatSpec(
    name="gguf",
    target="sgl_torch.loaders.gguf_files:load",
    summary="GGUF; quantized blocks stay as they are in the file",
    suffixes=(".gguf",),
    requires=("gguf>=0.17",),
)
DUMMY = LoadFormatSpec(
    name="dummy",
    target="sgl_torch.loaders.dummy:load",
    summary="seeded random weights of the right scale; reads no weight file",
)
