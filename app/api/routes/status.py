"""`/status`: for load balancers and people."""

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from app.api.access import unasked
from app.api.dependencies import ServicesOf
from app.api.documented import answers
from app.api.media import answer
from app.api.schemas.status import ReadinessRead

router = APIRouter(prefix="/status", tags=["status"])


@router.get("/ping", dependencies=[unasked()], response_class=PlainTextResponse)
async def ping() -> str:
    """`UP` as long as this process answers."""
    return "UP"


@router.get("/health", dependencies=[unasked()], response_class=PlainTextResponse)
async def health() -> str:
    """`UP` as long as this process answers; what it depends on is in `ready`."""
    return "UP"


@router.get(
    "/ready",
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
