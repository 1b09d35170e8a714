"""Fields of the official APIs that are taken without effect, each with the reason: none of them asks for another answer."""

from __future__ import annotations

_CACHE = "the prefix cache works for every request by itself"
_WHO = "the server tells no users apart"
_TIER = "there is one tier"

_LABELS = "labels of metrics come in a header"
_LOGS = "the operator decides what is logged"

CHAT = {
    "user": _WHO,
    "safety_identifier": _WHO,
    "store": "chat answers are not stored; the Responses API stores",
    "metadata": "belongs to stored answers",
    "service_tier": _TIER,
    "prompt_cache_key": _CACHE,
    "prompt_cache_options": _CACHE,
    "prompt_cache_retention": _CACHE,
    "prediction": "a hint for speed only",
    "verbosity": "no open model knows it; ask for brevity in the prompt",
    "moderation": "the server moderates nothing",
    "model": "one model is served",
}
COMPLETIONS = {"user": _WHO, "model": "one model is served", "custom_labels": _LABELS}
EMBEDDINGS = {"user": _WHO, "model": "one model is served"}
RESPONSES = {
    "model": "one model is served",
    "user": "given back with the response",
    "metadata": "given back with the response",
    "safety_identifier": "given back with the response",
    "prompt_cache_key": "given back with the response; " + _CACHE,
    "prompt_cache_options": _CACHE,
    "prompt_cache_retention": _CACHE,
    "access_programs": "the server has none",
    "service_tier": _TIER,
    "max_tool_calls": "it counts calls of tools that the server runs, and it runs none",
}
MESSAGES = {
    "model": "one model is served",
    "metadata": _WHO,
    "cache_control": _CACHE,
    "service_tier": _TIER,
    "inference_geo": "there is one place",
    "speed": "there is one speed",
    "diagnostics": "the server keeps none",
    "user_profile_id": _WHO,
    "workspace_id": _WHO,
    "betas": "a name of an unfinished feature asks for nothing by itself",
}
COUNT_TOKENS = {
    "model": "one model is served",
    "output_config": "only its effort is read, by templates that know it",
    "output_format": "constrains the answer, not the prompt",
    "cache_control": _CACHE,
    "speed": "there is one speed",
    "user_profile_id": _WHO,
    "workspace_id": _WHO,
}
OLLAMA = {"model": "one model is served", "keep_alive": "the served model stays loaded"}
OLLAMA_GENERATE = {**OLLAMA, "width": "for images", "height": "for images", "steps": "for images"}
OLLAMA_EMBED = {
    **OLLAMA,
    "stream": "vectors come whole",
    "options": "an embedding has none",
}
GENERATE = {
    "custom_labels": _LABELS,
    "log_metrics": _LOGS,
    "no_logs": _LOGS,
    "background": "every request runs to its end",
    "conversation_id": _CACHE,
    "routing_key": "a hint for routers",
    "external_trace_header": "the traceparent header is read",
}
FAMILY = {"model": "one model is served", "user": _WHO}
NATIVE_VECTORS = {
    **FAMILY,
    "background": "every request runs to its end",
    "log_metrics": _LOGS,
    "routing_key": "a hint for routers",
    "external_trace_header": "the traceparent header is read",
}
