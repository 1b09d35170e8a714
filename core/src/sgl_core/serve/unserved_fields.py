"""Fields of the reference system that ask for something which this server does not do, with the reason that a client gets."""

from __future__ import annotations

_ALONE = "this server is not part of a disaggregated deployment"
_RANKS = "the server has one rank; leave it to the server"
_TEXT = "this model reads text only"
_KEPT = "embeddings cannot be replaced"

DEPLOYMENT = {
    "bootstrap_host": _ALONE,
    "bootstrap_port": _ALONE,
    "bootstrap_room": _ALONE,
    "bootstrap_pair_key": _ALONE,
    "decode_tp_size": _ALONE,
    "disagg_prefill_dp_rank": _ALONE,
    "encoder_urls": _ALONE,
    "data_parallel_rank": _RANKS,
    "routed_dp_rank": _RANKS,
}
MEDIA = {
    "images_config": _TEXT,
    "video_config": _TEXT,
    "max_dynamic_patch": _TEXT,
    "min_dynamic_patch": _TEXT,
    "image_max_dynamic_patch": _TEXT,
    "video_max_dynamic_patch": _TEXT,
    "use_audio_in_video": _TEXT,
    "mm_hashes": _TEXT,
    "mm_content_hashes": _TEXT,
}
RETURNED = {
    "return_hidden_states": "hidden states are not returned",
    "return_routed_experts": "routed experts are not returned",
    "routed_experts_start_len": "routed experts are not returned",
    "return_indexer_topk": "the indexer's choices are not returned",
    "return_sampling_mask": "sampling masks are not returned",
    "return_entropy": "entropies are not returned; ask for log-probabilities",
    "return_prompt_token_ids": "ask /tokenize for the prompt's ids",
    "return_cached_tokens_details": "usage has the number of cached tokens",
    "return_spec_tokens_details": "nothing is drafted",
    "return_flat_raw_top_logprobs": "log-probabilities come by token; use top_logprobs_num",
    "return_flat_raw_top_logprobs_b64": "log-probabilities come by token; use top_logprobs_num",
    "return_bytes": "answers are text",
}
VECTORS = {
    "lora_path": "no LoRA adapters are loaded",
    "embed_override_token_id": _KEPT,
    "embed_overrides": _KEPT,
    "query_embed_overrides": _KEPT,
    "item_embed_overrides": _KEPT,
    "positional_embed_overrides": _KEPT,
    "return_pooled_hidden_states": "hidden states are not returned",
    "return_prompt_token_ids": "ask /tokenize for the prompt's ids",
    "input_embeds": "send text or token ids",
    "audio_data": _TEXT,
    "video_data": _TEXT,
    "multi_item_delimiter_indices": "send the items one by one",
    "is_cross_encoder_request": "send pairs to /v1/score or documents to /v1/rerank",
}
