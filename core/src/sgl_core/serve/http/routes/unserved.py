"""Routes of the APIs we speak that no part of this server serves: 501 with the reason, so that a client need not guess."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.http.errors import Handler, endpoint

_DISK = "weights are read from disk only (/update_weights_from_disk)"
_LORA = "this server runs without LoRA"
_EXPERTS = "the server records no expert distribution"
_STORAGE = "the server keeps no storage for cached pages"
_DRAFTS = "nothing is drafted, so no corpus serves drafts"
_TEXT = "this model reads and writes text only"

REFERENCE = {
    "/update_weights_from_distributed": _DISK,
    "/update_weights_from_tensor": _DISK,
    "/update_weights_from_ipc": _DISK,
    "/init_weights_update_group": _DISK,
    "/destroy_weights_update_group": _DISK,
    "/init_weights_send_group_for_remote_instance": _DISK,
    "/send_weights_to_remote_instance": _DISK,
    "/load_lora_adapter": _LORA,
    "/unload_lora_adapter": _LORA,
    "/start_expert_distribution_record": _EXPERTS,
    "/stop_expert_distribution_record": _EXPERTS,
    "/dump_expert_distribution_record": _EXPERTS,
    "/clear_hicache_storage_backend": _STORAGE,
    "/set_internal_state": "settings change with a restart; the log by /configure_logging",
    "/slow_down": "steps are not slowed down",
    "/dumper/{method}": "tensors are not dumped",
    "/add_external_corpus": _DRAFTS,
    "/remove_external_corpus": _DRAFTS,
    "/list_external_corpora": _DRAFTS,
    "/hicache/storage-backend": _STORAGE,
    "/hicache/storage-backend/clear": _STORAGE,
    "/set_trace_level": "traces are set up at start (--enable-trace)",
    "/freeze_gc": "the server does it by itself when it has started",
    "/get_remote_instance_transfer_engine_info": _DISK,
    "/remote_instance_transfer_engine_info": _DISK,
    "/weights_checker": "weights are read one by one with /get_weights_by_name",
    "/load_lora_adapter_from_tensors": _LORA,
}
"""Routes of the reference system that change a server."""

METHODS = {
    "/list_external_corpora": ("GET",),
    "/hicache/storage-backend": ("DELETE", "GET", "PUT"),
    "/get_remote_instance_transfer_engine_info": ("GET",),
    "/remote_instance_transfer_engine_info": ("GET",),
}
"""Where it is not POST."""

MODELS = {
    "/models/load": "this server has one model; several are served with --model NAME=PATH",
    "/models/unload": "this server has one model; several are served with --model NAME=PATH",
}
"""Routes of a server of several models (serve/models/routes.py)."""

OPENAI = {
    "/v1/audio/transcriptions": _TEXT,
    "/v1/audio/translations": _TEXT,
    "/v1/audio/speech": _TEXT,
    "/v1/images/generations": _TEXT,
    "/v1/images/edits": _TEXT,
    "/v1/moderations": "the server moderates nothing",
    "/v1/responses/compact": "the server compacts no contexts",
}
"""Routes of OpenAI's."""


def _refusal(why: str) -> Handler:
    async def answer(request: Request) -> Response:
        raise RequestError(f"{request.url.path} is not served: {why}", status=501, code="not_implemented")

    return endpoint(answer)


def routes() -> list[Route]:
    refused = {**REFERENCE, **MODELS, **OPENAI}
    return [Route(path, _refusal(why), methods=[*METHODS.get(path, ("POST",))]) for path, why in refused.items()]
