"""The entry of each architecture in the models registry."""

from __future__ import annotations

from sgl_core.api import ModelSpec, RuleSetSpec

STACKED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}


def _decoder(name: str, target: str, summary: str) -> ModelSpec:
    return ModelSpec(
        name=name,
        target=f"sgl_models.{target}:{name}",
        summary=summary,
        tasks=("generate", "embed"),
        stacked_weights=STACKED,
    )


LLAMA = _decoder("LlamaForCausalLM", "llama", "Llama 2 and 3, TinyLlama, SmolLM and other models of that body")
MISTRAL = _decoder("MistralForCausalLM", "llama", "Mistral 7B and its successors with a Mistral configuration")
QWEN2 = _decoder("Qwen2ForCausalLM", "qwen2", "Qwen2, Qwen2.5, QwQ")
QWEN3 = _decoder("Qwen3ForCausalLM", "qwen3", "Qwen3 dense models")
MIMO = _decoder("MiMoForCausalLM", "mimo", "Xiaomi MiMo 7B")


def _encoder(name: str, target: str, summary: str) -> ModelSpec:
    classifies = name.endswith("ForSequenceClassification")
    return ModelSpec(
        name=name,
        target=f"sgl_models.{target}",
        summary=summary,
        tasks=("classify", "rerank") if classifies else ("embed",),
        flags=frozenset({"encoder"}),
        stacked_weights={"qkv": ("query", "key", "value")},
    )


BERT = _encoder("BertModel", "bert:BertModel", "BERT embeddings: MiniLM, BGE, E5, GTE")
BERT_CLASSIFIER = _encoder(
    "BertForSequenceClassification", "bert:BertForSequenceClassification", "BERT classifiers and rerankers"
)
ROBERTA = _encoder("RobertaModel", "roberta:RobertaModel", "RoBERTa embeddings")
ROBERTA_CLASSIFIER = _encoder(
    "RobertaForSequenceClassification",
    "roberta:RobertaForSequenceClassification",
    "RoBERTa classifiers and rerankers",
)
XLM_ROBERTA = _encoder("XLMRobertaModel", "roberta:RobertaModel", "XLM-RoBERTa embeddings: BGE-M3, multilingual E5")
XLM_ROBERTA_CLASSIFIER = _encoder(
    "XLMRobertaForSequenceClassification",
    "roberta:RobertaForSequenceClassification",
    "XLM-RoBERTa classifiers and rerankers: BGE rerankers",
)
ENCODERS = (BERT, BERT_CLASSIFIER, ROBERTA, ROBERTA_CLASSIFIER, XLM_ROBERTA, XLM_ROBERTA_CLASSIFIER)

ENCODER_RULES = RuleSetSpec(
    name="encoders",
    target="sgl_models.encoder_rules:RULES",
    summary="Encoders: they embed, and read each prompt whole",
    architectures=tuple(spec.name for spec in ENCODERS),
)
