"""The entry of the CPU platform."""

from __future__ import annotations

from sgl_core.api import PlatformSpec

CPU = PlatformSpec(
    name="cpu",
    target="sgl_cpu.runtime:CpuRuntime",
    summary="x86-64 and ARM processors, by torch and, where installed, the kernels of sgl-ops",
    probe="sgl_cpu.probe:probe",
    preload="sgl_cpu.preload:preload",
    probe_order=0,
    env_names=("OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_CBWR"),
    serves=(
        "dtype",
        "kv_cache_dtype",
        "load_format",
        "quantization",
        "context_length",
        "attention_backend",
        "page_size",
        "max_total_tokens",
        "max_running_requests",
        "mem_fraction_static",
        "cpu_threads",
    ),
    rank={"attention": ("sgl_ops", "torch_native"), "samplers": ("sgl_ops", "pytorch")},
)
