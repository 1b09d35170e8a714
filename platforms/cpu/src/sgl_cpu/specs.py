"""The entry of the CPU platform."""

from __future__ import annotations

from sgl_core.api import PlatformSpec

CPU = PlatformSpec(
    name="cpu",
    target="sgl_cpu.runtime:CpuRuntime",
    summary="x86-64 and ARM processors, by torch and, where installed, the kernels of sgl-ops",
    probe="sgl_cpu.probe:probe",
    probe_order=0,
    env_names=("OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_CBWR"),
    rank={"attention": ("torch_native",), "samplers": ("torch",), "load_formats": ("auto",)},
)
