"""Finds and loads the shared library, declares its functions, and tells why it is not there."""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from ctypes import c_char_p, c_float, c_int, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

NAME = "libsgl_ops.so"
ABI = 1
HOW = (
    "Build it with `python -m sgl_ops.build` (needs a C++17 compiler, cmake and ninja: "
    "`apt install g++` and `pip install cmake ninja`), or install a binary wheel of sgl-ops."
)

_P, _I32, _I64, _F = c_void_p, c_int32, c_int64, c_float

# name: (argument types, result). Every c_int result is 0, or -1 with sgl_last_error().
_FUNCTIONS: dict[str, tuple[list[Any], Any]] = {
    "sgl_last_error": ([], c_char_p),
    "sgl_abi": ([], c_int),
    "sgl_isa": ([], c_char_p),
    "sgl_isa_note": ([], c_char_p),
    "sgl_pool_threads": ([], c_int),
    "sgl_pool_default_threads": ([], c_int),
    "sgl_pool_set_threads": ([c_int, c_int], c_int),
    "sgl_packed_bytes": ([_I32, _I64, _I64, _I64], _I64),
    "sgl_raw_row_bytes": ([_I32, _I64], _I64),
    "sgl_pack": ([_I32, _P, _P, _P, _I64, _I64, _I64, _P], c_int),
    "sgl_packed_check": ([_P, _I64], c_int),
    "sgl_linear": ([_I32, _P, _P, _I64, _I64, _P, _P, _P, _I32], c_int),
    "sgl_embed": ([_P, _P, _I32, _I64, _P, _I64, _F], c_int),
    "sgl_attention": (
        [
            _P,
            _I64,
            _P,
            _I64,
            _P,
            _P,
            _I32,
            _I64,
            _I64,
            _I64,
            _I64,
            _P,
            _P,
            _P,
            _I64,
            _I64,
            _P,
            _P,
            _I64,
            _I64,
            _I64,
            _I64,
            _I64,
            _I64,
            _F,
            _I64,
            _F,
            _P,
            _I32,
        ],
        c_int,
    ),
    "sgl_rms_norm": ([_P, _I64, _P, _I64, _P, _P, _I64, _I64, _I64, _F, _F], c_int),
    "sgl_rope_kv": (
        [
            _P,
            _I64,
            _P,
            _I64,
            _P,
            _I64,
            _I64,
            _I64,
            _I64,
            _I64,
            _I64,
            _P,
            _I32,
            _P,
            _I64,
            _I64,
            _I32,
            _P,
            _P,
            _F,
            _F,
            _P,
            _I32,
            _P,
            _P,
            _I32,
            _I64,
            _I64,
            _I64,
            _I64,
            _P,
            _P,
        ],
        c_int,
    ),
    "sgl_act_mul": ([_P, _I64, _P, _I64, _P, _I64, _I64, _I64, _I32], c_int),
    "sgl_add": ([_P, _I64, _P, _I64, _I64, _I64], c_int),
    "sgl_gather_rows": ([_P, _I64, _P, _I32, _I64, _P, _I64, _I64], c_int),
    "sgl_argmax": ([_P, _I64, _I64, _I64, _P], c_int),
    "sgl_sample": ([_P, _I64, _I64, _I64, _P, _P, _P, _P, _P, _P, _P], c_int),
    "sgl_logsumexp": ([_P, _I64, _I64, _I64, _F, _P], c_int),
    "sgl_mask_logits": ([_P, _I64, _I64, _P, _I64, _P, _I64], c_int),
    "sgl_tape_new": ([], _P),
    "sgl_tape_free": ([_P], None),
    "sgl_tape_begin": ([_P], c_int),
    "sgl_tape_end": ([], c_int),
    "sgl_tape_replay": ([_P], c_int),
    "sgl_tape_size": ([_P], _I64),
    "sgl_tape_name": ([_P, _I64], c_char_p),
    "sgl_tape_profile": ([_P, _P], c_int),
}


class OpsError(RuntimeError):
    """The library refused a call, or is not there; the message says what was wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether the kernels can be used. ``reason`` is empty when they can; ``note`` carries a warning (a refused SGL_CPU_ISA)."""

    ok: bool
    reason: str = ""
    path: str = ""
    isa: str = ""
    note: str = ""

    def __bool__(self) -> bool:
        return self.ok


def source_dir() -> Path | None:
    """Where the C++ sources lie: in the source tree or inside an installed package; None if neither."""
    here = Path(__file__).resolve().parent
    for candidate in (here.parents[1] / "cpu", here / "cpu"):
        if (candidate / "CMakeLists.txt").is_file():
            return candidate
    return None


def source_key(folder: Path) -> str:
    """Changes with any source file, so that a build of other sources is never loaded."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.suffix in {".cpp", ".h", ".txt"}):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def cache_dir() -> Path:
    """Root of locally built libraries: $SGL_CACHE_DIR/ops, else $XDG_CACHE_HOME/sgl/ops, else ~/.cache/sgl/ops."""
    root = os.environ.get("SGL_CACHE_DIR")
    if root:
        return Path(root) / "ops"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sgl" / "ops"


def candidates() -> list[Path]:
    """Places to look, best first: $SGL_OPS_LIBRARY, a local build of exactly these sources, what the installer built."""
    forced = os.environ.get("SGL_OPS_LIBRARY")
    if forced:
        return [Path(forced)]
    found: list[Path] = []
    sources = source_dir()
    if sources is not None:
        found.append(cache_dir() / source_key(sources) / NAME)
    package = sys.modules[__package__ or "sgl_ops"]
    found += [Path(p) / NAME for p in getattr(package, "__path__", [])]
    found += [Path(p) / "sgl_ops" / NAME for p in sys.path if p.endswith("site-packages")]
    return found


@lru_cache(maxsize=1)
def _open() -> tuple[ctypes.CDLL | None, str, str]:
    places = candidates()
    for path in places:
        if not path.is_file():
            continue
        try:
            lib = ctypes.CDLL(str(path))
            lib.sgl_abi.restype = c_int
            abi = lib.sgl_abi()
        except (OSError, AttributeError) as error:
            return None, str(path), f"{path} cannot be loaded: {error}. {HOW}"
        if abi != ABI:
            return None, str(path), f"{path} has interface {abi}, this package needs {ABI}. {HOW}"
        for name, (arguments, result) in _FUNCTIONS.items():
            function = getattr(lib, name)
            function.argtypes, function.restype = arguments, result
        return lib, str(path), ""
    looked = ", ".join(str(p) for p in places)
    return None, "", f"the compiled library {NAME} is not there (looked at {looked}). {HOW}"


def available() -> Availability:
    """Whether the kernels can be used here, and if not, why and what to do. Cheap after the first call."""
    lib, path, reason = _open()
    if lib is None:
        return Availability(False, reason, path)
    return Availability(True, "", path, lib.sgl_isa().decode(), lib.sgl_isa_note().decode())


def load() -> ctypes.CDLL:
    """The loaded library. Raises OpsError with the reason if it is not there."""
    lib, _, reason = _open()
    if lib is None:
        raise OpsError(f"sgl_ops: {reason}")
    return lib


def check(code: int) -> None:
    """Raise what the last call complained about."""
    if code:
        raise OpsError(load().sgl_last_error().decode())


def isa() -> str:
    """The instruction set in use: generic, avx2, avx512, avx512vnni or amx (SGL_CPU_ISA forces a lower one)."""
    return str(load().sgl_isa().decode())


def threads() -> int:
    """Threads of the pool, the calling one included."""
    return int(load().sgl_pool_threads())


def set_threads(count: int = 0, *, pin: bool = False) -> int:
    """Set the pool's size (0: what the cpuset and cgroup quota allow); pin binds worker i to the i-th allowed CPU."""
    return int(load().sgl_pool_set_threads(count, int(pin)))
