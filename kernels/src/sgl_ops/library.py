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
ABI = 3
HOW = (
    "Build it with `python -m sgl_ops.build` (needs GCC 12 or newer or clang, cmake and ninja: "
    "`apt install g++` and `pip install cmake ninja`), or install a binary wheel of sgl-ops."
)

_TYPES: dict[str, Any] = {"p": c_void_p, "i": c_int32, "l": c_int64, "f": c_float, "s": c_char_p, "-": None}

# name: result and argument types (pointer, int32, int64 = long, float, string). An "i" result is 0, or -1 with sgl_last_error().
_FUNCTIONS = {
    "sgl_last_error": "s",
    "sgl_abi": "i",
    "sgl_isa": "s",
    "sgl_isa_note": "s",
    "sgl_bf16_tiles": "i",
    "sgl_pool_threads": "i",
    "sgl_pool_default_threads": "i",
    "sgl_pool_set_threads": "i ii",
    "sgl_pool_selftest": "l l",
    "sgl_packed_bytes": "l illl",
    "sgl_raw_row_bytes": "l il",
    "sgl_pack": "i ippp lll p",
    "sgl_packed_check": "i pl",
    "sgl_linear": "i ip pll ppp il i",
    "sgl_embed": "i ppil plf",
    "sgl_attention": "i pl pl ppi llll pp pll pp llllll fl fpi l",
    "sgl_rms_norm": "i pl pl p pl ll ff",
    "sgl_rope_kv": "i pl pl pl lllll pi pll i pp ff pi ppi llll pp",
    "sgl_act_mul": "i pl pl pl ll i",
    "sgl_add": "i pl pl ll",
    "sgl_gather_rows": "i pl pi l pl l",
    "sgl_argmax": "i plll p",
    "sgl_sample": "i plll pppp pp p",
    "sgl_logsumexp": "i plll f p",
    "sgl_mask_logits": "i pll pl pl",
    "sgl_tape_new": "p",
    "sgl_tape_free": "- p",
    "sgl_tape_begin": "i p",
    "sgl_tape_end": "i",
    "sgl_tape_replay": "i p",
    "sgl_tape_size": "l p",
    "sgl_tape_name": "s pl",
    "sgl_tape_profile": "i pp",
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
        for name, signature in _FUNCTIONS.items():
            function = getattr(lib, name)
            result, *arguments = list(signature.replace(" ", ""))
            function.restype, function.argtypes = _TYPES[result], [_TYPES[a] for a in arguments]
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


def bf16_tiles() -> bool:
    """Whether the instruction set in use multiplies bf16 tiles; where it does not, ``bf16_from`` changes nothing."""
    return bool(load().sgl_bf16_tiles())


def threads() -> int:
    """Threads of the pool, the calling one included."""
    return int(load().sgl_pool_threads())


def set_threads(count: int = 0, *, pin: bool = False) -> int:
    """Set the pool's size (0: what the cpuset and cgroup quota allow); pin binds worker i to the i-th allowed CPU."""
    return int(load().sgl_pool_set_threads(count, int(pin)))
