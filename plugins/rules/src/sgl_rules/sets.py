"""The rule sets of this package: subjects, which every model consults, and families, which only their models do."""

from __future__ import annotations

from sgl_core.api.specs import RuleSetSpec

SERVING = RuleSetSpec(
    name="serving",
    target="sgl_rules.serving:RULES",
    summary="Defaults and refusals of the serving side: names, devices, media, transport, gRPC, tokenizer, what replaces old flags",
)
DISAGGREGATION = RuleSetSpec(
    name="disaggregation",
    target="sgl_rules.disaggregation:RULES",
    summary="Prefill-decode and encoder disaggregation: what each role keeps, and what the roles exclude",
)
CONTEXT_PARALLEL = RuleSetSpec(
    name="context_parallel",
    target="sgl_rules.context_parallel:RULES",
    summary="Context parallelism for prefill and decode: one spelling for the old and new flags, and what divides what",
)
DATA_PARALLEL = RuleSetSpec(
    name="data_parallel",
    target="sgl_rules.data_parallel:RULES",
    summary="Data-parallel attention and pipeline parallelism: what one replica drops, and how a prefill chunk is shared",
)
GRAPHS = RuleSetSpec(
    name="graphs",
    target="sgl_rules.graphs:RULES",
    summary="Rules about graph capture: what was asked for, which features a captured prefill excludes, what each role captures",
)
MEDIA = RuleSetSpec(
    name="media",
    target="sgl_rules.media:RULES",
    summary="Whether media are served, and how features of media travel between processes",
)
DEVICES = RuleSetSpec(
    name="devices",
    target="sgl_rules.devices:RULES",
    summary="What each kind of device decides before the model is looked at: attention, sampling, paging, graphs, overlap",
)
SIZING = RuleSetSpec(
    name="sizing",
    target="sgl_rules.sizing:RULES",
    summary="Sizes that follow from device memory: prefill chunk, captured batch sizes, and the share of memory for weights and KV",
)
QUANTIZATION = RuleSetSpec(
    name="quantization",
    target="sgl_rules.quantization:RULES",
    summary="Which quantization a checkpoint is served with, and the refusals where checkpoint, request and machine disagree",
)
MEMORY_POOL = RuleSetSpec(
    name="memory_pool",
    target="sgl_rules.memory_pool:RULES",
    summary="The KV cache: pages, dtypes, pools without a cache, host tiers, unified pools",
)
ATTENTION_CHOICE = RuleSetSpec(
    name="attention_choice",
    target="sgl_rules.attention_choice:RULES",
    summary="Which attention backend is used: the default per machine and model, deterministic inference, and fall-backs",
)
ATTENTION_LIMITS = RuleSetSpec(
    name="attention_limits",
    target="sgl_rules.attention_limits:RULES",
    summary="What attention kernels accept: page sizes, cache dtypes, machines, phases; and scoring with custom masks",
)
MOE = RuleSetSpec(
    name="moe",
    target="sgl_rules.moe:RULES",
    summary="Mixture of experts: runners and the formats they multiply, shared-expert fusion, expert statistics",
)
MOE_DISPATCH = RuleSetSpec(
    name="moe_dispatch",
    target="sgl_rules.moe_dispatch:RULES",
    summary="Dispatchers that carry tokens to expert-parallel ranks: what each implies for ranks, runners, modes and graphs",
)
LINEAR_ATTENTION = RuleSetSpec(
    name="linear_attention",
    target="sgl_rules.linear_attention:RULES",
    summary="Models with linear-attention or state-space layers: how their state is cached with prefixes, and its kernels",
)
ELASTIC_EXPERTS = RuleSetSpec(
    name="elastic_experts",
    target="sgl_rules.elastic_experts:RULES",
    summary="Elastic expert parallelism: groups that shrink, recover and grow while serving",
)
COMMUNICATION = RuleSetSpec(
    name="communication",
    target="sgl_rules.communication:RULES",
    summary="Fused all-reduces: when they are worth it, and what switches them off",
)
PROCESSES = RuleSetSpec(
    name="processes",
    target="sgl_rules.processes:RULES",
    summary="What the workers' environment must hold, and features that only some machines have",
)
SPECULATIVE = RuleSetSpec(
    name="speculative",
    target="sgl_rules.speculative:RULES",
    summary="Speculative decoding: algorithm names, defaults common to all algorithms, adaptive drafts, n-gram drafts",
)
SPECULATIVE_DRAFTS = RuleSetSpec(
    name="speculative_drafts",
    target="sgl_rules.speculative_drafts:RULES",
    summary="Drafts made by a model: EAGLE and its relatives, DFLASH and DSPARK blocks, Gemma's frozen keys",
)
DIFFUSION = RuleSetSpec(
    name="diffusion",
    target="sgl_rules.diffusion:RULES",
    summary="Diffusion language models: blocks decoded together, which shapes pages, kernels and schedule",
)
TASKS = RuleSetSpec(
    name="tasks",
    target="sgl_rules.tasks:RULES",
    summary="What a model's task decides at last: prefix language models, embedding models",
)
HISPARSE = RuleSetSpec(
    name="hisparse",
    target="sgl_rules.hisparse:RULES",
    summary="HiSparse: selected keys of sparse attention kept in host memory, and the kernels and caches it works with",
)

COHERE_FAMILY = RuleSetSpec(
    name="family_cohere",
    target="sgl_rules.families.cohere:RULES",
    summary="Cohere's mixture-of-experts models",
    architectures=("Cohere2MoeForCausalLM", "Cohere2VisionForConditionalGeneration"),
)
DEEPSEEK_FAMILY = RuleSetSpec(
    name="family_deepseek",
    target="sgl_rules.families.deepseek:RULES",
    summary="DeepSeek V3 and the models built like it: latent and sparse attention, context parallelism, experts on Blackwell",
    architectures=(
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLM",
        "Dots3NoteForCausalLM",
        "GlmMoeDsaForCausalLM",
        "KimiK25ForConditionalGeneration",
        "LongcatFlashForCausalLM",
        "MistralLarge3ForCausalLM",
        "PixtralForConditionalGeneration",
    ),
)
DEEPSEEK_V4_FAMILY = RuleSetSpec(
    name="family_deepseek_v4",
    target="sgl_rules.families.deepseek_v4:RULES",
    summary="DeepSeek V4: compressed attention on pages of 256, FP4 experts, context parallelism by interleaving",
    architectures=("DeepseekV4ForCausalLM",),
)
GEMMA_FAMILY = RuleSetSpec(
    name="family_gemma",
    target="sgl_rules.families.gemma:RULES",
    summary="Gemma 2, 3, 3n and 4: sliding windows, and the attention kernels that serve them",
    architectures=(
        "Gemma2ForCausalLM",
        "Gemma3ForCausalLM",
        "Gemma3ForConditionalGeneration",
        "Gemma3nForCausalLM",
        "Gemma3nForConditionalGeneration",
        "Gemma4ForCausalLM",
        "Gemma4ForConditionalGeneration",
        "Gemma4UnifiedForConditionalGeneration",
    ),
)
GLM_FAMILY = RuleSetSpec(
    name="family_glm",
    target="sgl_rules.families.glm:RULES",
    summary="GLM 4 MoE: TF32 router, experts on Blackwell. (GLM with sparse attention follows the DeepSeek rules.)",
    architectures=("Glm4MoeForCausalLM",),
)
GPT_OSS_FAMILY = RuleSetSpec(
    name="family_gpt_oss",
    target="sgl_rules.families.gpt_oss:RULES",
    summary="GPT-OSS: attention sinks, MXFP4 experts",
    architectures=("GptOssForCausalLM",),
)
HYBRIDS_FAMILY = RuleSetSpec(
    name="family_hybrids",
    target="sgl_rules.families.hybrids:RULES",
    summary="Falcon-H1, Jet, Granite hybrids, LFM2 and MiniCPM-V 4.6 on SM100: attention kernels beside states cached per token",
    architectures=(
        "FalconH1ForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "JetNemotronForCausalLM",
        "JetVLMForConditionalGeneration",
        "Lfm2ForCausalLM",
        "Lfm2MoeForCausalLM",
        "MiniCPMV4_6ForConditionalGeneration",
    ),
)
INKLING_FAMILY = RuleSetSpec(
    name="family_inkling",
    target="sgl_rules.families.inkling:RULES",
    summary="Inkling: short convolutions beside windowed attention, captured prefill. Muse Glimmer: small captured prefill, FP4",
    architectures=(
        "InklingForConditionalGeneration",
        "InklingForConditionalGenerationMTP",
        "MuseGlimmerForCausalLM",
        "MuseGlimmerForConditionalGeneration",
    ),
)
KIMI_FAMILY = RuleSetSpec(
    name="family_kimi",
    target="sgl_rules.families.kimi:RULES",
    summary="Kimi K3 and Kimi Linear: latent attention beside delta attention, DSPARK drafts, decode context parallelism",
    architectures=("KimiK3ForConditionalGeneration", "KimiLinearForCausalLM"),
)
LLAMA4_FAMILY = RuleSetSpec(
    name="family_llama4",
    target="sgl_rules.families.llama4:RULES",
    summary="Llama 4: chunked local attention, which some kernels serve",
    architectures=("Llama4ForCausalLM", "Llama4ForConditionalGeneration"),
)
MIMO_FAMILY = RuleSetSpec(
    name="family_mimo",
    target="sgl_rules.families.mimo:RULES",
    summary="MiMo V2: several draft layers, FP8 experts, a fused projection stored for one group size",
    architectures=("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"),
)
MINICPM_FAMILY = RuleSetSpec(
    name="family_minicpm",
    target="sgl_rules.families.minicpm:RULES",
    summary="MiniCPM with sparse or lightning attention",
    architectures=("MiniCPMForCausalLM", "MiniCPMSALAForCausalLM"),
)
MINIMAX_FAMILY = RuleSetSpec(
    name="family_minimax",
    target="sgl_rules.families.minimax:RULES",
    summary="MiniMax M2 and M3: TF32 matrix products, sparse attention on large pages, MXFP8 experts",
    architectures=("MiniMaxM2ForCausalLM", "MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration"),
)
MOSS_FAMILY = RuleSetSpec(
    name="family_moss",
    target="sgl_rules.families.moss:RULES",
    summary="MOSS-VL: cross attention over media, with custom masks",
    architectures=("MossVLForConditionalGeneration",),
)
NEMOTRON_FAMILY = RuleSetSpec(
    name="family_nemotron",
    target="sgl_rules.families.nemotron:RULES",
    summary="Nemotron-H: Mamba, attention and expert layers, in ModelOpt formats",
    architectures=("NemotronHForCausalLM", "NemotronHPuzzleForCausalLM"),
)
QWEN_FAMILY = RuleSetSpec(
    name="family_qwen",
    target="sgl_rules.families.qwen:RULES",
    summary="Qwen3 MoE, Qwen3-Next, Qwen3.5, Qwen3-VL and the Intern S2 models built on them",
    architectures=(
        "InternS2MobiusForConditionalGeneration",
        "InternS2PreviewForConditionalGeneration",
        "Qwen3MoeForCausalLM",
        "Qwen3NextForCausalLM",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
    ),
)
STEP3P_FAMILY = RuleSetSpec(
    name="family_step3p",
    target="sgl_rules.families.step3p:RULES",
    summary="Step 3.5 and 3.7: sliding windows beside full attention, several draft layers",
)
WINDOWED_FAMILY = RuleSetSpec(
    name="family_windowed",
    target="sgl_rules.families.windowed:RULES",
    summary="EXAONE 4, OLMo 2 and OLMo 3: sliding windows in one pool, and the kernels they were proven with",
    architectures=("Exaone4ForCausalLM", "ExaoneMoEForCausalLM", "Olmo2ForCausalLM", "Olmo3ForCausalLM"),
)
