"""Routes by which an operator changes the running server: pause, profiles, weights, memory, logging. What a worker lacks is a 501."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sgl_core.serve.core.errors import RequestError, refuse
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.validate import check_integer, check_text
from sgl_core.serve.http.body import parse_model, read_json, read_model
from sgl_core.serve.http.errors import endpoint, json_response
from sgl_core.serve.openai.fields import ApiModel

LOAD_SECONDS = 1800.0
"""How long new weights may take."""
LEVELS = ("debug", "info", "warning", "error", "critical")


class PauseBody(ApiModel):
    """``mode``: what happens to running requests. abort ends them, retract and in_place keep them for later."""

    mode: str | None = None


class ProfileBody(ApiModel):
    """The reference system's fields. ``num_steps`` 0 or none records until /stop_profile; what concerns other profilers (activities,
    stacks, shapes, stages) has no effect: a timeline of steps is recorded."""

    output_dir: str | None = None
    start_step: int | None = None
    num_steps: int | None = None
    activities: list[str] | None = None
    with_stack: bool | None = None
    record_shapes: bool | None = None
    profile_by_stage: bool | None = None


class UpdateWeightsBody(ApiModel):
    """``model_path`` is a folder or file of the same architecture on the server's machine."""

    model_path: str
    load_format: str | None = None
    flush_cache: bool | None = None
    abort_all_requests: bool | None = None
    weight_version: str | None = None


class GetWeightsBody(ApiModel):
    """``name`` as in the checkpoint; ``truncate_size`` is how many rows are given."""

    name: str
    truncate_size: int | None = None


class VersionBody(ApiModel):
    """``new_version`` is what answers and /model_info then report."""

    new_version: str
    abort_all_requests: bool | None = None


class MemoryBody(ApiModel):
    """``tags``: what is released or resumed (weights, kv_cache); unset is everything."""

    tags: list[str] | None = None


class LoggingBody(ApiModel):
    """``log_level`` of the server's log; ``log_requests`` with its level and form, as the flags of those names."""

    log_level: str | None = None
    log_requests: bool | None = None
    log_requests_level: int | None = None
    log_requests_format: str | None = None


async def ask(service: Service, op: str, timeout: float = 60.0, **args: Any) -> Any:
    """A control operation of the worker. Raises RequestError: 501 with the reason where the worker has no such operation."""
    try:
        return await service.front.control(op, timeout, **args)
    except RequestError as error:
        if error.status != 404:
            raise
        raise RequestError(f"this server cannot do it: {error.message}", status=501, code="not_implemented") from None


async def pause(request: Request) -> Response:
    body = parse_model(await read_json(request, empty_ok=True), PauseBody)
    mode = body.mode or "abort"
    if mode not in ("abort", "retract", "in_place"):
        raise refuse("mode", f"must be abort, retract or in_place, not {mode!r}")
    await ask(request.app.state.service, "pause", mode=mode)
    return json_response({"message": "Generation paused.", "status": "ok", "mode": mode})


async def go_on(request: Request) -> Response:
    await ask(request.app.state.service, "continue")
    return json_response({"message": "Generation goes on.", "status": "ok"})


async def start_profile(request: Request) -> Response:
    body = parse_model(await read_json(request, empty_ok=True), ProfileBody)
    folder = await ask(request.app.state.service, "start_profile", **body.model_dump(exclude_none=True))
    return json_response({"message": f"Profiling started: steps are recorded for {folder}.", "success": True})


async def stop_profile(request: Request) -> Response:
    value = await ask(request.app.state.service, "stop_profile", 600.0)
    return json_response({"message": f"Profiling stopped: {value}", "success": True, "result": value})


async def update_weights(request: Request) -> Response:
    """New weights of the same architecture. Running requests must have ended, or be aborted by the request."""
    body = await read_model(request, UpdateWeightsBody)
    check_text(body.model_path, "model_path")
    service: Service = request.app.state.service
    front = service.front
    if front.running and not body.abort_all_requests:
        raise RequestError(
            f"{front.running} requests run; wait for them, pause with mode abort, or send abort_all_requests: true",
            status=409,
            code="busy",
        )
    if body.abort_all_requests:
        front.abort(everything=True)
    args = {"model_path": body.model_path, **({"load_format": body.load_format} if body.load_format else {})}
    value = await ask(service, "update_weights_from_disk", LOAD_SECONDS, **args)
    if body.flush_cache is not False:
        await ask(service, "flush_cache")  # what was cached belongs to the old weights
    front.card = replace(
        front.card, path=body.model_path, weight_version=body.weight_version or front.card.weight_version
    )
    message = value.get("message") if isinstance(value, dict) else None
    return json_response({"success": True, "message": message or "The weights are in use.", "num_paused_requests": 0})


async def get_weights(request: Request) -> Response:
    body = await read_model(request, GetWeightsBody)
    rows = 100 if body.truncate_size is None else check_integer(body.truncate_size, "truncate_size", 1, 100_000)
    return json_response(await ask(request.app.state.service, "get_weight", name=body.name, truncate_size=rows))


async def release_memory(request: Request) -> Response:
    body = parse_model(await read_json(request, empty_ok=True), MemoryBody)
    service: Service = request.app.state.service
    if service.front.running:
        raise RequestError(f"{service.front.running} requests run; their memory is in use", status=409, code="busy")
    await ask(service, "release_memory", tags=body.tags or [])
    return json_response({"success": True})


async def resume_memory(request: Request) -> Response:
    body = parse_model(await read_json(request, empty_ok=True), MemoryBody)
    await ask(request.app.state.service, "resume_memory", LOAD_SECONDS, tags=body.tags or [])
    return json_response({"success": True})


async def configure_logging(request: Request) -> Response:
    body = await read_model(request, LoggingBody)
    await set_logging(body, request.app.state.service)
    return json_response({"message": "Logging configured.", "success": True})


async def set_logging(body: LoggingBody, service: Service) -> None:
    """Change the log of this process and of one model's worker. Raises RequestError naming a field."""
    if body.log_level is not None and body.log_level.lower() not in LEVELS:
        raise refuse("log_level", f"must be {', '.join(LEVELS)}, not {body.log_level!r}")
    if body.log_requests_level is not None:
        check_integer(body.log_requests_level, "log_requests_level", 0, 3)
    if body.log_requests_format not in (None, "text", "json"):
        raise refuse("log_requests_format", f"must be text or json, not {body.log_requests_format!r}")
    if body.log_level is not None:
        logging.getLogger().setLevel(body.log_level.upper())
        await service.front.control("log_level", level=body.log_level.upper())
    request_log = service.request_log
    if body.log_requests_level is not None:
        request_log.level = body.log_requests_level
    if body.log_requests_format is not None:
        request_log.as_json = body.log_requests_format == "json"
    if body.log_requests is not None:
        others = [observer for observer in service.front.observers if observer is not request_log]
        service.front.observers = [*others, request_log] if body.log_requests else others


async def weight_version(request: Request) -> Response:
    service: Service = request.app.state.service
    return json_response({"weight_version": service.card.weight_version})


async def set_weight_version(request: Request) -> Response:
    """Another label for the same weights, after they were changed by other means."""
    body = await read_model(request, VersionBody)
    check_text(body.new_version, "new_version")
    service: Service = request.app.state.service
    if body.abort_all_requests:
        service.front.abort(everything=True)
    service.front.card = replace(service.front.card, weight_version=body.new_version)
    message = f"The weight version is {body.new_version}."
    return json_response({"success": True, "message": message, "new_version": body.new_version})


def routes() -> list[Route]:
    both = ["GET", "POST"]
    return [
        Route("/pause_generation", endpoint(pause), methods=["POST"]),
        Route("/continue_generation", endpoint(go_on), methods=["POST"]),
        Route("/start_profile", endpoint(start_profile), methods=both),
        Route("/stop_profile", endpoint(stop_profile), methods=both),
        Route("/update_weights_from_disk", endpoint(update_weights), methods=["POST"]),
        Route("/get_weights_by_name", endpoint(get_weights), methods=both),
        Route("/release_memory_occupation", endpoint(release_memory), methods=both),
        Route("/resume_memory_occupation", endpoint(resume_memory), methods=both),
        Route("/configure_logging", endpoint(configure_logging), methods=["POST"]),
        Route("/get_weight_version", endpoint(weight_version), methods=["GET"]),
        Route("/weight_version", endpoint(weight_version), methods=["GET"]),
        Route("/update_weight_version", endpoint(set_weight_version), methods=["POST"]),
    ]
