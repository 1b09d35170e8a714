"""DeepSeek V3 and the models built like it: latent and sparse attention, context parallelism, experts on Blackwell."""

from __future__ import annotations

from collections.abc import Iterator

from sgl_core.api.facts import Facts
from sgl_core.api.model_info import ModelInfo
from sgl_core.api.rules import Declaration, View, force, require, rule, set_env, suggest

from ..asking import backends_unset, fill, in_order, is_dsa, quantization_unset, uses_mla
from ..graph_plan import DISABLED, plan_of, with_phase
from ..machine import is_npu, is_rocm, is_sm100, is_xpu, switch

FAMILY = (
    "DeepseekV32ForCausalLM",
    "DeepseekV3ForCausalLM",
    "Dots3NoteForCausalLM",
    "GlmMoeDsaForCausalLM",
    "KimiK25ForConditionalGeneration",
    "LongcatFlashForCausalLM",
    "MistralLarge3ForCausalLM",
    "PixtralForConditionalGeneration",
)
_FP8_OR_FP4 = ("fp8", "modelopt_fp8", "modelopt_fp4", "modelopt_mixed")
_HISPARSE = {"fp8_e4m3": "flashmla_kv"}
_CP_FIELDS = ("enable_dp_attention", "moe_dense_tp_size", "moe_a2a_backend", "ep_size", "attn_cp_size")


def _own_kernels(facts: Facts) -> bool:
    """The device runs our sparse-attention kernels (NPUs and Intel GPUs bring their own)."""
    return not is_npu(facts) and not is_xpu(facts)


@rule(
    stage="model",
    architectures=FAMILY,
    reads=(
        "attention_backend",
        "prefill_attention_backend",
        "decode_attention_backend",
        "enable_prefill_cp",
        "cp_strategy",
        "dp_size",
        "page_size",
        "tp_size",
    ),
    writes=("attention_backend", "page_size", *_CP_FIELDS),
    after=("deterministic_without_fusion",),
    before=("state_cache",),
)
def deepseek_attention(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Sparse models attend with their own backend on pages of 64; latent ones with the TensorRT-LLM kernel on SM100."""
    unset = backends_unset(view)
    if is_dsa(model):
        if unset:
            yield suggest("attention_backend", "dsa", "the model selects keys with a sparse indexer")
        if _own_kernels(facts):
            if view.enable_prefill_cp:
                yield from _sparse_context_parallel(view)
            single = is_rocm(facts) and not facts.has("aiter_preshuffle_paged_mqa")
            page = 1 if single else 64
            if view.page_size != page:
                yield force(
                    "page_size",
                    page,
                    "the indexer's kernel here reads single tokens" if single else "the indexer reads pages of 64",
                )
        return
    if is_sm100(facts) and unset:
        yield suggest("attention_backend", "trtllm_mla", "the fastest latent-attention kernel on this GPU")
    if view.enable_prefill_cp and uses_mla(model):
        yield from _context_parallel(view, dispatch=True)


def _sparse_context_parallel(view: View) -> Iterator[Declaration]:
    zigzag = view.cp_strategy == "zigzag"
    yield require(
        zigzag or view.dp_size == 1,
        "interleaved context parallelism of sparse attention has one replica",
        fix="use --cp-strategy zigzag or --dp-size 1",
        fields=("cp_strategy", "dp_size"),
        kind="AssertionError",
    )
    yield require(
        view.tp_size <= 8,
        "context shards are exchanged within one machine",
        fields=("enable_prefill_cp", "tp_size"),
        kind="AssertionError",
    )
    yield from _context_parallel(view, dispatch=zigzag)


def _context_parallel(view: View, *, dispatch: bool) -> Iterator[Declaration]:
    because = "under prefill context parallelism a replica is a context group"
    yield force("enable_dp_attention", True, because)
    yield force("moe_dense_tp_size", 1, because)
    if dispatch:
        yield force("moe_a2a_backend", "deepep", "tokens of a context shard travel to their experts")
        yield force("ep_size", view.tp_size, "experts are spread over all ranks")
    yield force("attn_cp_size", view.tp_size // view.dp_size, because)


@rule(
    stage="model",
    architectures=FAMILY,
    reads=("enable_prefill_cp", "enable_two_batch_overlap", "cuda_graph_config"),
    writes=("cuda_graph_config",),
    after=("deepseek_attention",),
    before=("state_cache",),
)
def deepseek_context_parallel(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Context shards are not captured; sharing of selected keys excludes overlapping two batches."""
    if is_dsa(model):
        config = model.hf_config
        if "SGLANG_DSA_PREFILL_DENSE_ATTN_KV_LEN_THRESHOLD" not in facts.env:
            topk = str(config.get("index_topk"))
            name = "SGLANG_DSA_PREFILL_DENSE_ATTN_KV_LEN_THRESHOLD"
            yield set_env(name, topk, "shorter contexts select every key anyway")
        shared = (config.get("index_topk_freq") or 1) > 1 or "S" in (config.get("index_topk_pattern") or "")
        yield require(
            not (view.enable_two_batch_overlap and shared),
            "layers share the keys selected by an earlier layer, which overlapped batches do not hand on",
            fields=("enable_two_batch_overlap",),
        )
    if view.enable_prefill_cp and ((is_dsa(model) and _own_kernels(facts)) or (not is_dsa(model) and uses_mla(model))):
        yield fill(
            view,
            "cuda_graph_config",
            with_phase(plan_of(view, facts), "prefill", backend=DISABLED),
            "context shards differ from step to step",
        )


@rule(
    stage="model",
    architectures=FAMILY,
    reads=("kv_cache_dtype",),
    writes=("kv_cache_dtype",),
    after=("deepseek_context_parallel",),
    before=("state_cache",),
)
def sparse_cache_dtype(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Sparse attention caches FP8 on Blackwell and bfloat16 before it."""
    if not is_dsa(model) or not _own_kernels(facts):
        return
    dtype = view.kv_cache_dtype
    if dtype == "auto":
        blackwell = facts.arch >= 100
        dtype = "fp8_e4m3" if blackwell else "bfloat16"
        yield fill(
            view,
            "kv_cache_dtype",
            dtype,
            "this GPU attends to FP8 pages at full speed" if blackwell else "this GPU gains nothing from FP8 pages",
        )
    elif dtype == "bf16":
        dtype = "bfloat16"
        yield force("kv_cache_dtype", dtype, "the short name of bfloat16")
    yield require(
        dtype in ("bfloat16", "fp8_e4m3"),
        "sparse attention caches bfloat16 or fp8_e4m3",
        fields=("kv_cache_dtype",),
        kind="AssertionError",
    )


@rule(
    stage="model",
    architectures=FAMILY,
    reads=("kv_cache_dtype", "dsa_prefill_backend", "dsa_decode_backend", "enable_hisparse"),
    writes=("dsa_prefill_backend", "dsa_decode_backend"),
    after=("sparse_cache_dtype",),
    before=("state_cache",),
)
def sparse_kernels(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Which kernels attend to the selected keys, per phase, by device and cache dtype."""
    if not is_dsa(model) or not _own_kernels(facts):
        return
    prefill, decode = view.dsa_prefill_backend, view.dsa_decode_backend
    defaults, because = _sparse_defaults(view, facts, model)
    if prefill is None:
        prefill = defaults[0]
        yield suggest("dsa_prefill_backend", prefill, because)
    if decode is None:
        decode = defaults[1]
        yield suggest("dsa_decode_backend", decode, because)
    special = view.enable_hisparse or because.startswith("GLM")
    yield require(
        special or is_rocm(facts) or view.kv_cache_dtype != "fp8_e4m3" or "tilelang" not in (prefill, decode),
        "the TileLang kernels read FP8 pages on AMD GPUs only",
        fix="use --kv-cache-dtype bfloat16, or another kernel",
        fields=("dsa_prefill_backend", "dsa_decode_backend", "kv_cache_dtype"),
    )


def _sparse_defaults(view: View, facts: Facts, model: ModelInfo) -> tuple[tuple[str, str], str]:
    fp8, amd = view.kv_cache_dtype == "fp8_e4m3", is_rocm(facts)
    blackwell = facts.arch >= 100
    if model.architecture == "GlmMoeDsaForCausalLM" and facts.arch // 10 == 12 and fp8 and not amd:
        return ("flashinfer_sparse_mla",) * 2, "GLM's FP8 pages are read by FlashInfer on this GPU"
    if view.enable_hisparse:
        kernel = "tilelang" if amd else _HISPARSE.get(view.kv_cache_dtype, "flashmla_sparse")
        return (kernel, kernel), "the kernel that reads pages of the host tier"
    if amd and view.dsa_prefill_backend is None and view.dsa_decode_backend is None:
        return ("tilelang", "tilelang"), "the kernels for AMD GPUs"
    if fp8:
        kernel = "trtllm" if blackwell else "flashmla_kv"
        return (kernel, kernel), "the fastest kernel for FP8 pages here"
    return ("flashmla_sparse", "trtllm" if blackwell else "fa3"), "the fastest kernels for bfloat16 pages here"


@rule(
    stage="model",
    architectures=FAMILY,
    reads=(
        "enable_prefill_cp",
        "cp_strategy",
        "disaggregation_mode",
        "enable_dsa_cache_layer_split",
        "disaggregation_transfer_backend",
        "pp_size",
    ),
    after=("sparse_kernels",),
    before=("state_cache",),
)
def sparse_roles(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Context parallelism and split caches of sparse models belong to prefill servers."""
    role = view.disaggregation_mode
    if not is_dsa(model):
        return
    yield require(
        not view.enable_prefill_cp or role != "decode",
        "context parallelism splits prompts, and a decode server has none",
        fields=("enable_prefill_cp", "disaggregation_mode"),
        kind="AssertionError",
    )
    if not view.enable_dsa_cache_layer_split:
        return
    for condition, name in (
        (role == "prefill", "disaggregation_mode"),
        (view.enable_prefill_cp and view.cp_strategy == "interleave", "cp_strategy"),
        (view.disaggregation_transfer_backend == "mooncake", "disaggregation_transfer_backend"),
        (view.pp_size <= 1, "pp_size"),
    ):
        yield require(
            bool(condition),
            "layers of the cache are split among interleaved context ranks of a prefill server, sent by mooncake",
            fields=("enable_dsa_cache_layer_split", name),
        )


@rule(
    stage="model",
    architectures=FAMILY,
    reads=("quantization", "moe_a2a_backend", "moe_runner_backend", "fp8_gemm_runner_backend"),
    writes=("quantization", "moe_runner_backend", "fp8_gemm_runner_backend"),
    after=("sparse_roles",),
    before=("state_cache",),
)
def deepseek_experts(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """On SM100 experts in eight or four bits are multiplied by the TensorRT-LLM runner."""
    arch = model.architecture
    if not is_sm100(facts):
        return
    method = view.quantization
    if quantization_unset(view):
        if model.quant_method is None and arch == "DeepseekV3ForCausalLM":
            if model.expert_weight_dtype == "F8_E4M3":
                method = "fp8"
                yield suggest(
                    "quantization", method, "the experts' weights are FP8, though config.json does not say so"
                )
        elif model.quant_method is not None:
            method = model.quant_method
            yield suggest("quantization", method, "the checkpoint says so")
    longcat = arch.startswith("LongcatFlash")
    fits = method is None or method in _FP8_OR_FP4 or _is_int4_group32(model)
    if view.moe_a2a_backend == "none" and view.moe_runner_backend == "auto" and not longcat and fits:
        yield fill(view, "moe_runner_backend", "flashinfer_trtllm", "the fastest runner for these experts on this GPU")
    scales = model.quant_config.get("scale_fmt")
    if longcat and view.fp8_gemm_runner_backend == "auto" and method in _FP8_OR_FP4[:2] and scales != "ue8m0":
        yield fill(view, "fp8_gemm_runner_backend", "flashinfer_trtllm", "its scales are not powers of two")


def _is_int4_group32(model: ModelInfo) -> bool:
    """Kimi's thinking checkpoints: int4 weights in groups of 32."""
    weights = (model.quant_config.get("config_groups") or {}).get("group_0", {}).get("weights") or {}
    wanted = {"num_bits": 4, "group_size": 32, "strategy": "group", "type": "int"}
    return model.quant_method == "compressed-tensors" and all(weights.get(k) == v for k, v in wanted.items())


@rule(
    stage="model",
    architectures=FAMILY,
    platforms=("rocm",),
    reads=(
        "quantization",
        "speculative_algorithm",
        "ep_size",
        "speculative_moe_a2a_backend",
        "speculative_moe_runner_backend",
    ),
    writes=("speculative_moe_runner_backend", "speculative_moe_a2a_backend"),
    after=("deepseek_experts",),
    before=("state_cache",),
)
def deepseek_rocm_draft(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """On AMD GPUs drafts of NVFP4 models run their experts in FP8 or bfloat16."""
    if is_dsa(model):
        yield set_env("SGLANG_OPT_USE_TOPK_V2", "False", "the second top-k kernel is written for NVIDIA")
    unset = view.speculative_moe_runner_backend is None or view.speculative_moe_a2a_backend is None
    if view.quantization != "modelopt_fp4" or view.speculative_algorithm != "EAGLE" or not unset:
        return
    fp8 = switch(facts, "SGLANG_NVFP4_CKPT_FP8_NEXTN_MOE")
    yield require(
        not fp8 or view.ep_size > 1,
        "FP8 drafts run on expert-parallel ranks",
        fix="set --ep-size above 1",
        fields=("ep_size",),
    )
    because = "the draft's experts are in another format than the model's"
    yield force("speculative_moe_runner_backend", "deep_gemm" if fp8 else "triton", because)
    yield force("speculative_moe_a2a_backend", "deepep" if fp8 else "none", because)


@rule(
    stage="model",
    reads=("dtype",),
    architectures=("MistralLarge3ForCausalLM", "PixtralForConditionalGeneration"),
    writes=("dtype",),
)
def mistral_large_dtype(view: View, facts: Facts, model: ModelInfo) -> Iterator[Declaration]:
    """Mistral's large models overflow in half precision."""
    if view.dtype != "bfloat16":
        yield force("dtype", "bfloat16", "activations exceed the range of half precision")


RULES = in_order(
    deepseek_attention,
    deepseek_context_parallel,
    sparse_cache_dtype,
    sparse_kernels,
    sparse_roles,
    deepseek_experts,
    deepseek_rocm_draft,
    mistral_large_dtype,
)
