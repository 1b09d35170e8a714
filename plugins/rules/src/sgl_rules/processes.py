"""What the workers' environment must hold, and features that only some machines have."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, set_env

from .asking import in_order
from .machine import is_cuda, is_rocm, is_sm90, is_sm100, is_sm120, switch

_CORE_DUMPS = {
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1",
    "CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1",
    "CUDA_COREDUMP_SHOW_PROGRESS": "1",
    "CUDA_COREDUMP_GENERATION_FLAGS": (
        "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,skip_constbank_memory"
    ),
    "CUDA_COREDUMP_PIPE": "/tmp/corepipe.cuda.%h.%p",
}
_SEQUENCE_PARALLEL_NORM = frozenset({"Qwen3ForCausalLM"})


@rule(
    stage="features",
    reads=(
        "enable_torch_compile",
        "mamba_ssm_dtype",
        "disable_outlines_disk_cache",
        "enable_deterministic_inference",
        "debug_cuda_graph",
        "enable_deepseek_v4_fp4_indexer",
    ),
    writes=("debug_cuda_graph",),
    after=("media_transport",),
)
def worker_environment(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Settings that libraries read from the environment of the workers."""
    deterministic = view.enable_deterministic_inference
    for name, value in (
        ("SGLANG_ENABLE_TORCH_COMPILE", view.enable_torch_compile),
        ("SGLANG_DISABLE_OUTLINES_DISK_CACHE", view.disable_outlines_disk_cache),
        ("SGLANG_ENABLE_DETERMINISTIC_INFERENCE", deterministic),
    ):
        yield set_env(name, "1" if value else "0", "the workers' libraries read it")
    if view.mamba_ssm_dtype is not None:
        yield set_env("SGLANG_MAMBA_SSM_DTYPE", view.mamba_ssm_dtype, "the state's dtype")
    if deterministic:
        yield set_env("SGLANG_FLASHINFER_MOE_FUSED_FINALIZE", "0", "the fused sum over experts changes its order")
    if view.debug_cuda_graph:
        if is_cuda(facts) or is_rocm(facts):
            yield set_env("SGLANG_USE_BREAKABLE_CUDA_GRAPH", "1", "graphs are debugged by breaking them")
        else:
            yield force("debug_cuda_graph", False, "this device captures no graphs")
    yield require(
        not view.enable_deepseek_v4_fp4_indexer or is_sm100(facts) or is_sm120(facts),
        "the FP4 indexer is written for SM100 and SM120",
        fields=("enable_deepseek_v4_fp4_indexer",),
    )
    yield from _grouped_output_projection(facts)


def _grouped_output_projection(facts: Facts) -> Iterator[Declaration]:
    """The FP8 grouped output projection needs DeepGEMM with the scale format of Blackwell."""
    name = "SGLANG_OPT_FP8_WO_A_GEMM"
    asked = name in facts.env
    if not is_cuda(facts) or not switch(facts, name, default=True):
        return
    jit = "deep_gemm" in facts.libraries and facts.arch >= 90 and facts.arch != 120
    jit = jit and switch(facts, "SGLANG_ENABLE_JIT_DEEPGEMM", default=True)
    if not (jit and (is_sm100(facts) or (is_sm90(facts) and asked))):
        yield set_env(name, "False", "DeepGEMM has no kernel for it on this machine")


@rule(stage="features", reads=("crash_dump_folder",), after=("dumps_without_graphs",))
def core_dumps(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Core dumps of the device go to the crash folder, small enough to keep."""
    if not view.crash_dump_folder:
        return
    folder = f"{view.crash_dump_folder}/%h/core.cuda.%t.%p"
    for name, value in {**_CORE_DUMPS, "CUDA_COREDUMP_FILE": folder}.items():
        if name not in facts.env:
            yield set_env(name, value, "a crash folder was named")


@rule(
    stage="speculative",
    reads=("enable_layernorm_sp", "tp_size", "enable_dp_attention", "speculative_algorithm"),
    after=("dspark_drafts",),
)
def layernorm_sequence_parallel(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Sequence-parallel norms: proven models, several ranks, one sequence per rank group."""
    if not view.enable_layernorm_sp:
        return
    for condition, because, name in (
        (
            model.architecture in _SEQUENCE_PARALLEL_NORM,
            f"{model.architecture} was not proven with it",
            "enable_layernorm_sp",
        ),
        (view.tp_size > 1, "one rank has no sequence to share", "tp_size"),
        (not view.enable_dp_attention, "replicas hold different sequences", "enable_dp_attention"),
        (view.speculative_algorithm is None, "drafts need whole hidden states", "speculative_algorithm"),
    ):
        yield require(bool(condition), because, fields=tuple({"enable_layernorm_sp", name}))


@rule(
    stage="features",
    reads=(
        "optimistic_prefill_attempts",
        "disaggregation_mode",
        "uses_mamba_radix_cache",
        "pp_size",
        "enable_hierarchical_cache",
        "hicache_storage_backend",
        "hicache_write_policy",
    ),
    writes=("optimistic_prefill_attempts",),
    after=("core_dumps",),
)
def optimistic_prefill(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Prefill servers guess ahead only where a wrong guess can be taken back."""
    if view.optimistic_prefill_attempts <= 0 or view.disaggregation_mode != "prefill":
        return
    stored = view.enable_hierarchical_cache and (
        view.hicache_storage_backend is not None or view.hicache_write_policy != "write_back"
    )
    if view.pp_size > 1 or stored or view.uses_mamba_radix_cache:
        yield force("optimistic_prefill_attempts", 0, "a wrong guess would already be in a later stage or cache")


RULES = in_order(
    layernorm_sequence_parallel,
    worker_environment,
    core_dumps,
    optimistic_prefill,
)
