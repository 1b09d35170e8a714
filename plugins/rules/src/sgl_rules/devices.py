"""What each kind of device decides before the model is looked at: attention, sampling, paging, graphs, overlap."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, rule, set_env, suggest

from .asking import fill, in_order, uses_mla
from .graph_plan import DISABLED, FULL, REQUEST_FIELDS, locked, plan_of, with_phase
from .machine import has_library, is_cuda, is_npu, is_rocm, uses_mlx


@rule(
    stage="platform",
    reads=("device",),
    writes=("attention_backend", "sampling_backend"),
    after=("graph_roles",),
)
def gaudi_kernels(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Gaudi runs the framework's own attention."""
    if view.device == "hpu":
        yield force("attention_backend", "torch_native", "no attention kernel of ours is built for Gaudi")
        yield force("sampling_backend", "pytorch", "no sampling kernel of ours is built for Gaudi")


@rule(
    stage="platform",
    reads=("device", "attention_backend", "sampling_backend"),
    writes=("attention_backend", "sampling_backend"),
    after=("gaudi_kernels",),
)
def cpu_kernels(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """CPUs attend with tile kernels on x86 and the framework's kernels on Arm, and sample in the framework."""
    if view.device != "cpu":
        return
    if view.attention_backend is None:
        arm = facts.has("arm64")
        yield suggest(
            "attention_backend",
            "torch_native" if arm else "intel_amx",
            "no tile kernel exists for Arm" if arm else "the x86 kernel uses matrix tiles where the CPU has them",
        )
    if view.sampling_backend != "pytorch":
        yield force("sampling_backend", "pytorch", "sampling kernels are built for GPUs")


@rule(
    stage="platform",
    reads=(
        "device",
        "page_size",
        "chunked_prefill_size",
        "cuda_graph_config",
        "tp_size",
        "disable_custom_all_reduce",
        "enable_hierarchical_cache",
    ),
    writes=(
        "attention_backend",
        "prefill_attention_backend",
        "decode_attention_backend",
        "page_size",
        "chunked_prefill_size",
        "cuda_graph_config",
        "disable_custom_all_reduce",
        "hicache_io_backend",
        "hicache_mem_layout",
    ),
    after=("cpu_kernels",),
)
def ascend_kernels(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Ascend NPUs have one attention kernel, large pages and their own cache transfers."""
    if view.device != "npu":
        return
    for field in ("attention_backend", "prefill_attention_backend", "decode_attention_backend"):
        yield force(field, "ascend", "the only attention kernel for this device")
    if view.page_size is None:
        yield suggest("page_size", 128, "the kernel reads pages of 128 tokens")
    plan = plan_of(view, facts)
    memory = facts.device_memory_mib or 0.0
    tier = _ascend_tier(memory, view.tp_size)
    if tier is not None:
        chunk, batch = tier
        if view.chunked_prefill_size is None:
            yield suggest("chunked_prefill_size", chunk, f"device memory of {memory:.0f} MiB")
        if plan["decode"]["max_bs"] is None:
            plan = with_phase(plan, "decode", max_bs=batch)
    plan = with_phase(plan, "prefill", tc_compiler="eager")
    if plan != view.cuda_graph_config:
        yield fill(view, "cuda_graph_config", plan, "batch sizes that fit the device memory, compiled eagerly")
    if not view.disable_custom_all_reduce:
        yield force("disable_custom_all_reduce", True, "the custom all-reduce is a GPU kernel")
    if view.enable_hierarchical_cache:
        layout = "page_first_kv_split" if uses_mla(model) else "page_first_direct"
        yield force("hicache_io_backend", "kernel_ascend", "host pages are copied by this device's own kernel")
        yield force("hicache_mem_layout", layout, "the layout that kernel copies")


def _ascend_tier(memory_mib: float, tensor_parallel: int) -> tuple[int, int] | None:
    """(prefill chunk in tokens, largest captured batch): from 32 GiB (Atlas 300I) and 64 GiB (Atlas 800) devices."""
    wide = tensor_parallel >= 4
    if memory_mib <= 32 * 1024:
        return 4096, 64 if wide else 16
    if memory_mib <= 64 * 1024:
        return 8192, 256 if wide else 64
    return None


@rule(
    stage="platform",
    reads=("device", "disable_overlap_schedule"),
    writes=("disable_overlap_schedule",),
    after=("ascend_kernels",),
)
def metal_without_overlap(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """The framework's Metal backend runs one stream: scheduling cannot overlap with it."""
    if view.device == "mps" and not uses_mlx(facts) and not view.disable_overlap_schedule:
        yield force("disable_overlap_schedule", True, "Metal under the framework has one stream")


@rule(
    stage="platform",
    reads=(*REQUEST_FIELDS, "device", "cuda_graph_config"),
    writes=("cuda_graph_config",),
    after=("metal_without_overlap",),
)
def xpu_decode_graphs(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Intel GPUs capture decode only when whole graphs were asked for."""
    if view.device != "xpu":
        return
    plan = plan_of(view, facts)
    asked = ("decode", "backend") in locked(view)
    if not asked or plan["decode"]["backend"] not in (DISABLED, FULL):
        because = "graph capture on Intel GPUs is experimental" if not asked else "only whole graphs can be captured"
        yield fill(view, "cuda_graph_config", with_phase(plan, "decode", backend=DISABLED), because)


@rule(stage="platform", reads=("enable_symm_mem",), writes=("enable_symm_mem",), after=("xpu_decode_graphs",))
def symmetric_memory_support(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Symmetric memory is a feature of NVIDIA and AMD fabrics."""
    if not view.enable_symm_mem:
        return
    if not (is_cuda(facts) or is_rocm(facts)):
        yield force("enable_symm_mem", False, "this device has no symmetric memory")
    elif "SGLANG_SYMM_MEM_PREALLOC_GB_SIZE" not in facts.env:
        yield set_env("SGLANG_SYMM_MEM_PREALLOC_GB_SIZE", "4", "4 GiB of symmetric memory hold the largest all-reduce")


@rule(
    stage="attention",
    reads=("sampling_backend",),
    writes=("sampling_backend",),
)
def sampling_default(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Sample with FlashInfer where it is installed."""
    if view.sampling_backend is None:
        found = has_library(facts, "flashinfer")
        yield suggest(
            "sampling_backend",
            "flashinfer" if found else "pytorch",
            "its kernels sample without sorting the vocabulary" if found else "FlashInfer is not installed",
        )


@rule(
    stage="attention",
    reads=(
        "pre_warm_nccl",
        "triton_attention_num_kv_splits",
    ),
    writes=("triton_attention_num_kv_splits", "pre_warm_nccl"),
    after=("page_size_default",),
)
def rocm_kv_splits(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """AMD GPUs need more splits to fill their compute units; NCCL is warmed where there is one."""
    if is_rocm(facts) and view.triton_attention_num_kv_splits != 16:
        yield force("triton_attention_num_kv_splits", 16, "compute units outnumber the heads of a decode batch")
    if view.pre_warm_nccl and not (is_cuda(facts) or is_rocm(facts) or is_npu(facts)):
        yield force("pre_warm_nccl", False, "this device has no NCCL")


RULES = in_order(
    gaudi_kernels,
    cpu_kernels,
    ascend_kernels,
    metal_without_overlap,
    xpu_decode_graphs,
    symmetric_memory_support,
    sampling_default,
    rocm_kv_splits,
)
