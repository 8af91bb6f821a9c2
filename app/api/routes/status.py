"""`/status`, for load balancers and people, and `/metrics`, for Prometheus."""

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from app.api.access import requires, unasked
from app.api.dependencies import ServicesOf
from app.api.documented import answers
from app.api.media import answer
from app.api.schemas.status import ReadinessRead
from app.domain.access import Role
from app.metrics.exposition import CONTENT_TYPE, exposition

router = APIRouter(tags=["status"])


@router.get("/status/ping", dependencies=[unasked()], response_class=PlainTextResponse)
async def ping() -> str:
    """`UP` as long as this process answers."""
    return "UP"


@router.get("/status/health", dependencies=[unasked()], response_class=PlainTextResponse)
async def health() -> str:
    """`UP` as long as this process answers; what it depends on is in `ready`."""
    return "UP"


@router.get(
    "/status/ready",
    dependencies=[unasked()],
    responses=answers(ReadinessRead)
    | answers(ReadinessRead, status=503, description="A part is not as it should be"),
)
async def ready(services: ServicesOf) -> Response:
    """Whether messages can be taken and subscriptions changed, and which part is in the way."""
    parts = await services.readiness.parts()
    is_ready = all(parts.values())
    body = ReadinessRead(status="READY" if is_ready else "NOT_READY", parts=dict(parts))
    return answer(body, 200 if is_ready else 503)


@router.get("/metrics", dependencies=[requires(Role.ANY)], response_class=PlainTextResponse)
@router.get(
    "/status/prometheus", dependencies=[requires(Role.ANY)], response_class=PlainTextResponse
)
async def metrics(services: ServicesOf) -> Response:
    """This process, and all subscriptions and topics, in Prometheus' text format."""
    text = await exposition(await services.figures.read())
    return Response(text, media_type=CONTENT_TYPE)
