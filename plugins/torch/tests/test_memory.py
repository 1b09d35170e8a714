"""Sizing the KV cache, and reading memory limits from made-up system folders."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sgl_torch.dtypes import compute_dtype, kv_dtype
from sgl_torch.host_memory import available_memory, memory_limit, own_memory, total_memory
from sgl_torch.memory import KVSize, MemoryBudget, OutOfMemory, kv_size

GIB = 1 << 30


def size(budget: MemoryBudget, max_total_tokens: int | None = None, page_size: int = 16) -> KVSize:
    return kv_size(
        budget,
        bytes_per_token=1 << 16,
        page_size=page_size,
        context_length=2048,
        max_requests=64,
        max_total_tokens=max_total_tokens,
    )


class TestKvSize:
    def test_a_small_model_takes_a_quarter_of_the_free_memory(self) -> None:
        got = size(MemoryBudget(total=16 * GIB, available=8 * GIB, weights=GIB, fraction=0.9))
        assert got.num_pages * 16 == 2 * GIB // (1 << 16)
        assert "quarter of the free memory" in got.note

    def test_never_more_than_all_requests_can_use(self) -> None:
        got = size(MemoryBudget(total=999 * GIB, available=900 * GIB, weights=GIB))
        assert got.num_pages * 16 == 64 * 2048
        assert "64 requests of 2048 tokens" in got.note

    def test_one_context_where_it_fits(self) -> None:
        got = size(MemoryBudget(total=GIB, available=GIB // 4, weights=0))
        assert got.num_pages * 16 == 2048

    def test_fraction_bounds_weights_and_cache_together(self) -> None:
        got = size(MemoryBudget(total=4 * GIB, available=2 * GIB, weights=2 * GIB, fraction=0.51))
        assert got.num_pages * 16 * (1 << 16) <= 4 * GIB * 0.51 - 2 * GIB

    def test_max_total_tokens_is_respected(self) -> None:
        assert size(MemoryBudget(total=16 * GIB, available=8 * GIB, weights=0), 1000).num_pages == 62
        with pytest.raises(
            OutOfMemory, match=r"max_total_tokens 1000000 takes 61\.04 GiB, the budget leaves 8\.00 GiB"
        ):
            size(MemoryBudget(total=16 * GIB, available=8 * GIB, weights=0), 1000000)

    def test_no_room_is_an_error_with_figures(self) -> None:
        with pytest.raises(OutOfMemory, match=r"weights take 3\.00 GiB"):
            size(MemoryBudget(total=4 * GIB, available=GIB, weights=3 * GIB, fraction=0.7))


def machine(root: Path, groups: dict[str, str], cgroup: str = "0::/a/b\n") -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(
        "MemTotal:  8388608 kB\nMemFree: 10 kB\nMemAvailable: 4194304 kB\nHugePages: 0\n"
    )
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in groups.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


class TestHostMemory:
    def test_without_limits(self, tmp_path: Path) -> None:
        root = machine(tmp_path, {"a/b/memory.max": "max\n"})
        assert (total_memory(root), available_memory(root)) == (8 * GIB, 4 * GIB)

    def test_the_tightest_enclosing_group_counts(self, tmp_path: Path) -> None:
        files = {
            "a/memory.max": f"{GIB}",
            "a/b/memory.max": f"{3 * GIB}",
            "a/b/memory.current": f"{GIB // 2}",
            "a/b/memory.stat": f"anon 5\ninactive_file {GIB // 4}\n",
        }
        root = machine(tmp_path, files)
        assert memory_limit(root) == total_memory(root) == GIB
        assert available_memory(root) == GIB - GIB // 4

    def test_version_one(self, tmp_path: Path) -> None:
        files = {"memory/x/memory.limit_in_bytes": f"{2 * GIB}", "memory/memory.limit_in_bytes": "9223372036854771712"}
        root = machine(tmp_path, files, "5:memory:/x\n3:cpu,cpuacct:/x\n")
        assert total_memory(root) == 2 * GIB

    def test_this_machine(self) -> None:
        assert 0 < available_memory() <= total_memory()


class TestDtypes:
    def test_auto_takes_the_checkpoint_s_where_it_is_fast(self) -> None:
        fast = frozenset({"bfloat16"})
        assert compute_dtype("auto", "bfloat16", fast) == torch.bfloat16
        assert compute_dtype("auto", "bfloat16", frozenset()) == torch.float32
        assert compute_dtype("auto", "float16", fast) == torch.float32
        assert compute_dtype("auto", "", fast) == torch.float32
        assert compute_dtype("half", "float32", frozenset()) == torch.float16

    def test_unknown_names_are_refused(self) -> None:
        with pytest.raises(ValueError, match="dtype 'int3' is not known; use auto, bfloat16"):
            compute_dtype("int3", "", frozenset())
        with pytest.raises(ValueError, match="kv_cache_dtype 'nvfp4' is not served"):
            kv_dtype("nvfp4", torch.float32)
        assert kv_dtype("auto", torch.bfloat16) == torch.bfloat16


def test_what_this_process_holds_itself(tmp_path: Path) -> None:
    folder = tmp_path / "proc" / "self"
    folder.mkdir(parents=True)
    (folder / "status").write_text(
        "Name:\tx\nVmRSS:\t900 kB\nRssAnon:\t 300 kB\nRssFile:\t 500 kB\nRssShmem:\t 100 kB\n"
    )
    assert own_memory(tmp_path) == 400 * 1024
    assert own_memory(tmp_path / "none") == 0
    before = own_memory()
    held = bytearray(b"x") * (64 << 20)
    assert own_memory() - before > 60 << 20
    del held
