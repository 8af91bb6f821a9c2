"""`/status` for load balancers and people, and `/metrics` for Prometheus."""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from app.accepted import TEXT
from app.api.access import requires, unchecked
from app.api.dependencies import ServicesOf
from app.api.documented import Responses, answers
from app.api.lazy_route import LazyRoute
from app.api.management.health.status_bodies import ProcessHealthRead, ReadinessRead, readiness_read
from app.api.media import answer, prefers_json, prefers_text
from app.domain.access.keys import Role
from app.metrics.exposition import CONTENT_TYPE, exposition

_READY: Final = "READY"
_NOT_READY: Final = "NOT_READY"

router = APIRouter(tags=["status"], route_class=LazyRoute)


@router.get("/status/ping", dependencies=[unchecked()], response_class=PlainTextResponse)
@router.get(
    "/", dependencies=[unchecked()], response_class=PlainTextResponse, operation_id="ping_root"
)
async def ping() -> str:
    """Return `UP` as long as this process responds."""
    return "UP"


def _health() -> Responses:
    documented = answers(ProcessHealthRead)
    documented[200]["content"][TEXT] = {"schema": {"type": "string"}, "example": "UP"}
    return documented


@router.get("/status/health", dependencies=[unchecked()], responses=_health())
async def health(request: Request, services: ServicesOf) -> Response:
    """Return `UP` as long as this process responds; `ready` has the state of its dependencies.

    On request the response is JSON, with the places where acknowledged messages can be lost, and
    the brokers that throttle this process.
    """
    if not prefers_json(request):
        return PlainTextResponse("UP")
    return answer(
        ProcessHealthRead(
            status="UP",
            may_lose=list(await services.durability.risks(with_names=False)),
            throttled=list(services.readiness.throttled()),
        )
    )


def _readiness() -> Responses:
    unready = "A part is not as it should be"
    documented = answers(ReadinessRead) | answers(ReadinessRead, status=503, description=unready)
    for status, word in ((200, _READY), (503, _NOT_READY)):
        documented[status]["content"][TEXT] = {"schema": {"type": "string"}, "example": word}
    return documented


@router.get("/status/ready", dependencies=[unchecked()], responses=_readiness())
async def ready(request: Request, services: ServicesOf) -> Response:
    """Return whether messages and changes are accepted; if not, which parts are not ready.

    On request the response is text, with only the status, as in Hermes.
    """
    body = readiness_read(await services.readiness.waits())
    status = 200 if body.status == _READY else 503
    return PlainTextResponse(body.status, status) if prefers_text(request) else answer(body, status)


@router.get("/metrics", dependencies=[requires(Role.ANY)], response_class=PlainTextResponse)
@router.get(
    "/status/prometheus",
    dependencies=[requires(Role.ANY)],
    response_class=PlainTextResponse,
    operation_id="prometheus_metrics",
)
async def metrics(services: ServicesOf) -> Response:
    """Return the metrics of this process, all subscriptions and topics, in Prometheus' format."""
    text = await exposition(await services.figures.read())
    return Response(text, media_type=CONTENT_TYPE)
