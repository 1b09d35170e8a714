"""Instruction counts of the hot kernels under callgrind (AVX2, one thread): they move when the code does, not when the machine is busy.

python kernels/bench/instructions.py            # prints counts beside the kept ones (instructions.json)
python kernels/bench/instructions.py --check    # fails when one grew by more than 3 %
python kernels/bench/instructions.py --keep     # writes them down
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

KEPT = Path(__file__).with_name("instructions.json")
CALLS = 3


def product(fmt: str, block: int, size: int, tokens: int) -> None:
    """CALLS products of a 576 x 576 weight."""
    import numpy as np

    from sgl_ops import linear

    rng = np.random.default_rng(0)
    packed = linear.pack(fmt, rng.integers(0, 60, (576, 576 // block * size), dtype=np.uint8), 576, 576)
    x, out = rng.standard_normal((tokens, 576), dtype=np.float32), np.empty((tokens, 576), np.float32)
    for _ in range(CALLS):
        packed.run(x, out)


def attend(queries: int, context: int) -> None:
    """CALLS attentions of 9 heads over 3, bf16 cache."""
    import numpy as np

    from sgl_ops import attention

    cache = np.full((context + queries) * 3 * 64, 0x3D3D, np.uint16)
    q = np.ones((queries, 576), np.float32)
    table = np.arange(-(-(context + queries) // 16), dtype=np.int32)
    for _ in range(CALLS):
        attention.paged_attention(
            q, np.empty_like(q), cache, cache, table, np.array([queries], np.int32), np.array([context], np.int32), tokens=queries,
            requests=1, heads=9, kv_heads=3, head_dim=64, page_size=16, pages_stride=len(table), scale=0.1, kv_dtype="bfloat16",
        )  # fmt: skip


CASES = {
    "q4_1 576x576 T=1": lambda: product("Q4_1", 32, 20, 1),
    "q4_1 576x576 T=48": lambda: product("Q4_1", 32, 20, 48),
    "q8_0 576x576 T=1": lambda: product("Q8_0", 32, 34, 1),
    "q8_0 576x576 T=48": lambda: product("Q8_0", 32, 34, 48),
    "attention 1 query, 512 keys": lambda: attend(1, 511),
    "attention 64 queries, 256 keys before": lambda: attend(64, 256),
}


def count(name: str) -> int:
    """Instructions of one call of a case."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={folder}/out",
            "--toggle-collect=*op_entry*",
            sys.executable,
            __file__,
            "--case",
            name,
        ]
        env = {**os.environ, "SGL_CPU_ISA": "avx2", "SGL_CPU_THREADS": "1", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if not found:
        raise SystemExit(f"callgrind printed no count:\n{done.stderr[-2000:]}")
    return int(found.group(1)) // CALLS


def main() -> None:
    if "--case" in sys.argv:
        CASES[sys.argv[-1]]()
        return
    kept: dict[str, int] = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    fresh, grown = {}, []
    for name in CASES:
        fresh[name] = count(name)
        before = kept.get(name)
        change = f"{fresh[name] / before - 1:+.1%}" if before else "new"
        print(f"{name:<40} {fresh[name]:>12,} {change}")
        if before and fresh[name] > before * 1.03:
            grown.append(name)
    if "--keep" in sys.argv:
        KEPT.write_text(json.dumps(fresh, indent=1) + "\n")
    if "--check" in sys.argv and grown:
        raise SystemExit(f"more instructions than kept in {KEPT.name}: {', '.join(grown)}")


if __name__ == "__main__":
    main()
