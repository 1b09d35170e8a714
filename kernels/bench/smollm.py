"""A llama-family model assembled from a GGUF file with sgl_ops alone: the reference user of the kernels, prefill and taped decode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import gguf
import numpy as np

import sgl_ops
from sgl_ops import attention, fused, linear, sampling

PAGE = 16
Pack: TypeAlias = Callable[[Any], linear.Packed]


class Layer:
    """One block's packed weights and its caches."""

    def __init__(
        self, tensors: dict[str, Any], index: int, slots: int, kv_heads: int, dim: int, kv_dtype: str, pack: Pack
    ) -> None:
        def weight(name: str) -> linear.Packed:
            return pack(tensors[f"blk.{index}.{name}.weight"])

        self.qkv = [weight("attn_q"), weight("attn_k"), weight("attn_v")]
        self.o = weight("attn_output")
        self.gate_up = [weight("ffn_gate"), weight("ffn_up")]
        self.down = weight("ffn_down")
        self.attn_norm = floats(tensors[f"blk.{index}.attn_norm.weight"])
        self.ffn_norm = floats(tensors[f"blk.{index}.ffn_norm.weight"])
        size = {"float32": 4, "bfloat16": 2, "float16": 2}.get(kv_dtype, 1)
        self.k = np.zeros(slots * kv_heads * dim * size, np.uint8)
        self.v = np.zeros(slots * kv_heads * dim * size, np.uint8)
        self.k_scale, self.v_scale = (np.ones((slots, kv_heads), np.float32) for _ in range(2))


def packed(tensor: Any) -> linear.Packed:
    """Pack a GGUF tensor as it lies in the file."""
    n_in, n_out = (int(v) for v in tensor.shape[:2])
    return linear.pack(tensor.tensor_type.name, np.ascontiguousarray(tensor.data), n_out, n_in)


def floats(tensor: Any) -> np.ndarray:
    return np.ascontiguousarray(tensor.data, dtype=np.float32)


class Model:
    """The whole model over fixed buffers for at most ``tokens`` new tokens and ``requests`` rows a step."""

    def __init__(
        self,
        path: Path,
        *,
        tokens: int = 2048,
        requests: int = 64,
        slots: int = 8192,
        kv_dtype: str = "bfloat16",
        exact: bool = False,
        pack: Pack | None = None,
    ) -> None:
        """``pack`` packs the layers' matrices from the file's tensors; None: as they lie there."""
        reader = gguf.GGUFReader(str(path))
        tensors = {t.name: t for t in reader.tensors}

        def field(name: str) -> Any:
            found = reader.fields[f"llama.{name}"]
            return found.parts[found.data[0]][0]

        self.layers_n, self.hidden, self.ffn = (
            int(field("block_count")),
            int(field("embedding_length")),
            int(field("feed_forward_length")),
        )
        self.heads, self.kv_heads = int(field("attention.head_count")), int(field("attention.head_count_kv"))
        self.eps, self.dim = float(field("attention.layer_norm_rms_epsilon")), self.hidden // self.heads
        self.kv_dtype, self.exact, self.max_pos = kv_dtype, exact, int(field("context_length"))
        self.layers = [
            Layer(tensors, i, slots, self.kv_heads, self.dim, kv_dtype, pack or packed) for i in range(self.layers_n)
        ]
        self.embedding = packed(tensors["token_embd.weight"])
        self.lm_head = packed(tensors["output.weight"]) if "output.weight" in tensors else self.embedding
        self.norm = floats(tensors["output_norm.weight"])
        self.vocab = self.embedding.n_out
        freq = float(field("rope.freq_base")) ** (-np.arange(0, self.dim, 2) / self.dim)
        angles = np.arange(self.max_pos)[:, None] * freq
        self.cos_sin = np.concatenate([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
        # Step inputs, refilled before each step (a tape records their addresses).
        self.ids, self.positions, self.slots = (np.zeros(tokens, np.int32) for _ in range(3))
        self.query_lens, self.context_lens, self.sample_rows = (np.zeros(requests, np.int32) for _ in range(3))
        self.table = np.zeros((requests, -(-self.max_pos // PAGE)), np.int32)
        self.next_ids = np.zeros(requests, np.int32)
        width = (self.heads + 2 * self.kv_heads) * self.dim

        def buffer(rows: int, columns: int) -> np.ndarray:
            return linear.aligned_empty(rows * columns * 4).view(np.float32).reshape(rows, columns)

        self.x, self.h, self.attn = (
            buffer(tokens, self.hidden),
            buffer(tokens, self.hidden),
            buffer(tokens, self.heads * self.dim),
        )
        self.qkv, self.gate_up, self.act = buffer(tokens, width), buffer(tokens, 2 * self.ffn), buffer(tokens, self.ffn)
        self.last, self.logits = buffer(requests, self.hidden), buffer(requests, self.vocab)

    @property
    def weight_bytes(self) -> int:
        """Bytes read per decoded token: all layers and the output matrix."""
        every = [p for layer in self.layers for p in (*layer.qkv, layer.o, *layer.gate_up, layer.down)]
        return sum(p.nbytes for p in every) + self.lm_head.nbytes

    def flops(self, context: float, head: bool) -> float:
        """Operations for one token at a mean context: products and attention."""
        every = [p for layer in self.layers for p in (*layer.qkv, layer.o, *layer.gate_up, layer.down)]
        total = sum(2.0 * p.n_in * p.n_out for p in every) + self.layers_n * 4.0 * self.heads * self.dim * context
        return total + (2.0 * self.lm_head.n_in * self.lm_head.n_out if head else 0)

    def step(self, tokens: int, requests: int, *, bf16: bool = False) -> None:
        """Issue one step's ops (run at once, or recorded inside ``Tape.record``).

        ``bf16``: the layers' products and attention in bf16 tiles, as for prompts; the head is as for every row."""
        self.layers_step(tokens, requests, bf16=bf16)
        fused.gather_rows(self.x, self.sample_rows, self.last, count=requests, dim=self.hidden)
        fused.rms_norm(self.last, self.norm, self.last, rows=requests, dim=self.hidden, eps=self.eps)
        self.lm_head.run(self.last, self.logits, rows=requests, exact=self.exact)
        sampling.argmax(self.logits, self.next_ids, rows=requests, vocab=self.vocab)

    def layers_step(self, tokens: int, requests: int, *, bf16: bool) -> None:
        """The step without its head: hidden states in ``x``."""
        how: dict[str, Any] = {"exact": self.exact, "bf16_from": 0 if bf16 else None}
        q_width, kv_width, stride = self.heads * self.dim, self.kv_heads * self.dim, self.qkv.shape[1]
        q, k, v = self.qkv, self.qkv[:, q_width:], self.qkv[:, q_width + kv_width :]
        self.embedding.embed(self.ids[:tokens], self.x)
        for layer in self.layers:
            fused.rms_norm(self.x, layer.attn_norm, self.h, rows=tokens, dim=self.hidden, eps=self.eps)
            linear.run_many(layer.qkv, self.h, [q, k, v], rows=tokens, ldo=[stride] * 3, **how)
            fused.rope_kv(
                q, k, v, tokens=tokens, heads=self.heads, kv_heads=self.kv_heads, head_dim=self.dim, ldq=stride, ldk=stride, ldv=stride,
                positions=self.positions, cos_sin=self.cos_sin, max_position=self.max_pos, interleaved=True, slots=self.slots,
                k_cache=layer.k, v_cache=layer.v, kv_dtype=self.kv_dtype, k_scale=layer.k_scale, v_scale=layer.v_scale,
            )  # fmt: skip
            attention.paged_attention(
                q, self.attn, layer.k, layer.v, self.table, self.query_lens, self.context_lens, tokens=tokens, requests=requests,
                heads=self.heads, kv_heads=self.kv_heads, head_dim=self.dim, page_size=PAGE, pages_stride=self.table.shape[1],
                scale=self.dim**-0.5, kv_dtype=self.kv_dtype, k_scale=layer.k_scale, v_scale=layer.v_scale, ldq=stride,
                bf16_from=None if self.exact else 0 if bf16 else requests,
            )  # fmt: skip
            layer.o.run(self.attn, self.x, rows=tokens, accumulate=True, **how)
            fused.rms_norm(self.x, layer.ffn_norm, self.h, rows=tokens, dim=self.hidden, eps=self.eps)
            linear.run_gated(*layer.gate_up, self.h, self.act, rows=tokens, **how)
            layer.down.run(self.act, self.x, rows=tokens, accumulate=True, **how)

    def all_logits(self, ids: list[int], *, bf16: bool = False) -> np.ndarray:
        """Logits [len(ids), vocab] after every token of one sequence."""
        count = len(ids)
        self.place(0, np.arange(-(-count // PAGE)))
        self.layers_step(self.fill([(0, ids)]), 1, bf16=bf16)
        fused.rms_norm(self.x, self.norm, self.h, rows=count, dim=self.hidden, eps=self.eps)
        out = np.empty((count, self.vocab), np.float32)
        self.lm_head.run(self.h, out, rows=count, exact=self.exact)
        return out

    def place(self, request: int, pages: np.ndarray) -> None:
        """Give a request its pages."""
        self.table[request, : len(pages)] = pages

    def fill(self, rows: list[tuple[int, list[int]]]) -> int:
        """Set the step's inputs from (context, new ids) per request; gives the number of tokens."""
        at = 0
        for r, (context, ids) in enumerate(rows):
            n = len(ids)
            where = np.arange(context, context + n)
            self.ids[at : at + n] = ids
            self.positions[at : at + n] = where
            self.slots[at : at + n] = self.table[r, where // PAGE] * PAGE + where % PAGE
            self.query_lens[r], self.context_lens[r], self.sample_rows[r] = n, context, at + n - 1
            at += n
        return at

    def tape(self, requests: int) -> sgl_ops.Tape:
        """Record a decode step for this many rows."""
        tape = sgl_ops.Tape()
        with tape.record():
            self.step(requests, requests)
        tape.keep(self)
        return tape

    def generate(self, prompt: list[int], count: int) -> list[int]:
        """Greedy continuation of one prompt."""
        self.place(0, np.arange(-(-(len(prompt) + count) // PAGE)))
        self.step(self.fill([(0, prompt)]), 1)
        tape, out = self.tape(1), [int(self.next_ids[0])]
        for i in range(count - 1):
            self.fill([(len(prompt) + i, out[-1:])])
            tape.replay()
            out.append(int(self.next_ids[0]))
        return out
