"""Health, load and metrics: what balancers and dashboards ask."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sgl_core.api.sampling import SamplingParams
from sgl_core.serve.core.answer import collect
from sgl_core.serve.core.errors import RequestError
from sgl_core.serve.core.request import TextRequest
from sgl_core.serve.core.service import Service
from sgl_core.serve.http.errors import endpoint, json_response

PROBE_SECONDS = 20.0


async def health(request: Request) -> Response:
    """200 when requests are served; 503 with the reason while loading, draining, hung or dead."""
    service: Service = request.app.state.service
    why = service.front.unhealthy()
    if why:
        raise RequestError(why, status=503, code=service.front.state)
    return Response(status_code=200)


async def health_generate(request: Request) -> Response:
    """As health, proven by generating one token."""
    service: Service = request.app.state.service
    front = service.front
    front.check_open()
    probe = TextRequest(
        input_ids=[next(iter(service.card.eos_token_ids), 0)],
        sampling=SamplingParams(max_new_tokens=1, temperature=0.0, ignore_eos=True),
        embed=not service.card.generates,
        measured=False,
    )
    async with front.submit([probe]) as run:
        try:
            await asyncio.wait_for(collect(run), PROBE_SECONDS)
        except (TimeoutError, asyncio.TimeoutError):
            raise RequestError(f"no token came within {PROBE_SECONDS:g} s", status=503, code="hung") from None
    return Response(status_code=200)


async def get_load(request: Request) -> Response:
    """The reference system's load report; one entry a data-parallel rank."""
    load = load_of(request.app.state.service)
    return json_response([load] if request.url.path.endswith("get_load") else {"loads": [load]})


def load_of(service: Service) -> dict[str, int]:
    """The load of one model."""
    stats = service.front.stats
    page = int(service.front.capacity.get("page_size") or 1)
    return {
        "dp_rank": 0,
        "num_reqs": stats.running + stats.waiting,
        "num_waiting_reqs": stats.waiting,
        "num_running_reqs": stats.running,
        "num_tokens": stats.used_pages * page,
        "num_used_tokens": stats.used_pages * page,
        "max_total_num_tokens": stats.total_pages * page,
    }


async def metrics(request: Request) -> Response:
    """The Prometheus page."""
    service: Service = request.app.state.service
    if service.metrics is None:
        raise RequestError("metrics are off", status=404)
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def routes() -> list[Route]:
    return [
        Route("/health", endpoint(health)),
        Route("/ping", endpoint(health)),
        Route("/health_generate", endpoint(health_generate)),
        Route("/get_load", endpoint(get_load)),
        Route("/v1/loads", endpoint(get_load)),
        Route("/metrics", endpoint(metrics)),
    ]
