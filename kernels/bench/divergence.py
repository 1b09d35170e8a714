"""Mean KL divergence of SmolLM2's next-token distributions from float32 activations, per weight format and way to multiply.

python kernels/bench/divergence.py MODEL.gguf [--sequences 8] [--length 96]

The layers' matrices are requantized from the file to each format (k-quants only where their blocks of 256 fit: ffn_down; the other
matrices are Q8_0 then). The reference multiplies the same weights by float32 activations over a float32 KV cache; the others use a
bfloat16 cache. The texts are drawn from the reference at temperature 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from smollm import Model, Pack

from sgl_ops import linear

PLAIN = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "BF16")
SUPER = ("Q4_K", "Q6_K")


def q6_k(w: np.ndarray) -> np.ndarray:
    """Rows of w [n, 256 b] as Q6_K blocks, scales by the largest weight (the quality of the weights does not matter here)."""
    x = w.reshape(-1, 16, 16)
    scale = np.abs(x).max(-1) / 31
    d = (scale.max(-1) / 127).astype(np.float16)
    steps = np.rint(scale / np.maximum(d.astype(np.float32), 1e-12)[:, None]).clip(0, 127).astype(np.int8)
    width = np.maximum(steps * d.astype(np.float32)[:, None], 1e-12)
    q = (np.rint(x / width[..., None]).clip(-32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    low, high = q & 15, q >> 4
    ql = np.concatenate([low[:, :, 0] | low[:, :, 2] << 4, low[:, :, 1] | low[:, :, 3] << 4], axis=-1)
    qh = high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6
    parts = [ql.reshape(-1, 128), qh.reshape(-1, 64), steps.view(np.uint8), d[:, None].view(np.uint8)]
    return np.concatenate(parts, axis=1).reshape(len(w), -1)


def q4_k(w: np.ndarray) -> np.ndarray:
    """Rows of w [n, 256 b] as Q4_K blocks, likewise."""
    x = w.reshape(-1, 8, 32)
    least = np.minimum(x.min(-1), 0)
    scale = (x.max(-1) - least) / 15
    d, dmin = ((v.max(-1) / 63).astype(np.float16) for v in (scale, -least))
    wide = lambda v: np.maximum(v.astype(np.float32), 1e-12)[:, None]  # noqa: E731
    s, m = (np.rint(v / wide(u)).clip(0, 63).astype(np.uint8) for v, u in ((scale, d), (-least, dmin)))
    low = (m * dmin.astype(np.float32)[:, None])[..., None]
    q = (
        np.rint((x + low) / np.maximum(s * d.astype(np.float32)[:, None], 1e-12)[..., None])
        .clip(0, 15)
        .astype(np.uint8)
    )
    q = q.reshape(-1, 4, 2, 32)
    packed = np.concatenate(
        [s[:, :4] | s[:, 4:] >> 4 << 6, m[:, :4] | m[:, 4:] >> 4 << 6, (s[:, 4:] & 15) | m[:, 4:] << 4], axis=1
    )
    parts = [
        d[:, None].view(np.uint8),
        dmin[:, None].view(np.uint8),
        packed,
        (q[:, :, 0] | q[:, :, 1] << 4).reshape(-1, 128),
    ]
    return np.concatenate(parts, axis=1).reshape(len(w), -1)


def requantizer(fmt: str) -> Pack:
    def pack(tensor: Any) -> linear.Packed:
        weight = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        name = "Q8_0" if fmt in SUPER and weight.shape[1] % 256 else fmt
        if name in SUPER:
            raw = q4_k(weight) if name == "Q4_K" else q6_k(weight)
        else:
            raw = gguf.quants.quantize(weight, gguf.GGMLQuantizationType[name])
        if name in ("F16", "BF16"):
            raw = raw.view(np.uint16)
        return linear.pack(name, np.ascontiguousarray(raw), *weight.shape)

    return pack


def log_softmax(logits: np.ndarray) -> np.ndarray:
    x = logits.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return np.asarray(x - np.log(np.exp(x).sum(-1, keepdims=True)))


def texts(model: Model, count: int, length: int) -> list[list[int]]:
    """Token ids drawn from the model, one token a step."""
    rng, every = np.random.default_rng(1), []
    for _ in range(count):
        ids = [1]
        while len(ids) < length:
            p = np.exp(log_softmax(model.all_logits(ids)[-1]))
            ids.append(int(rng.choice(model.vocab, p=p / p.sum())))
        every.append(ids)
    return every


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--length", type=int, default=96)
    args = parser.parse_args()
    sizes = {"tokens": args.length, "requests": 1, "slots": args.length + 16}
    sequences = texts(Model(args.model, kv_dtype="bfloat16", **sizes), args.sequences, args.length)
    print(
        f"{args.sequences} texts of {args.length} tokens; mean KL (largest) against float32 activations, and how often the best token is the same"
    )
    for fmt in (*PLAIN, *SUPER):
        pack = requantizer(fmt)
        reference = Model(args.model, kv_dtype="float32", exact=True, pack=pack, **sizes)
        served = Model(args.model, kv_dtype="bfloat16", pack=pack, **sizes)
        line = f"{fmt:<5}"
        truth = [log_softmax(reference.all_logits(ids)) for ids in sequences]
        for bf16 in (False, True):
            kl, same = [], []
            for ids, want in zip(sequences, truth, strict=True):
                got = log_softmax(served.all_logits(ids, bf16=bf16))
                kl.append((np.exp(want) * (want - got)).sum(-1))
                same.append(want.argmax(-1) == got.argmax(-1))
            every = np.concatenate(kl)
            line += f"  {'bf16' if bf16 else '8 bit'}: {every.mean():.5f} ({every.max():.3f}), {np.concatenate(same).mean():.1%}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
