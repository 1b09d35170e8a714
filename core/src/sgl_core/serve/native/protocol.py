"""The body of /generate. Everything that may be one value or one per prompt is checked where it is spread."""

from __future__ import annotations

from typing import Any

from sgl_core.serve.openai.fields import ApiModel
from sgl_core.serve.unserved_fields import DEPLOYMENT, MEDIA, RETURNED


class GenerateRequest(ApiModel):
    """The reference system's fields; ``text`` or ``input_ids``, one or several."""

    text: Any = None
    input_ids: Any = None
    sampling_params: dict[str, Any] | list[dict[str, Any]] | None = None
    rid: str | list[str] | None = None
    stream: bool | None = None
    return_logprob: bool | list[bool] | None = None
    logprob_start_len: int | list[int] | None = None
    top_logprobs_num: int | list[int] | None = None
    token_ids_logprob: Any = None
    return_text_in_logprobs: bool | None = None
    custom_logit_processor: str | list[str | None] | None = None
    session_params: Any = None
    priority: int | None = None
    extra_key: str | None = None
    cache_salt: str | None = None
    incremental: bool | None = None


UNSERVED = {
    "input_embeds": "send text or input_ids",
    "image_data": "this model reads text only",
    "video_data": "this model reads text only",
    "audio_data": "this model reads text only",
    "lora_path": "no LoRA adapters are loaded",
    "positional_embed_overrides": "embeddings cannot be replaced",
    "modalities": "this model reads text only",
    "session_id": "use session_params",
    "multi_item_delimiter_indices": "use /v1/score",
    "require_reasoning": "the server's reasoning parser decides on /v1/chat/completions",
    **DEPLOYMENT,
    **MEDIA,
    **RETURNED,
    "max_thinking_tokens": "thinking is not limited",
}
