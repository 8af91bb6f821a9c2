"""`/workers`: the processes that deliver."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.base import Schema
from app.api.dependencies import ServicesOf
from app.api.documented import answers, errors
from app.api.lazy_route import LazyRoute
from app.api.media import AnswerNotes, answer
from app.api.pages import NamePageOf, next_link
from app.domain.access.keys import Role
from app.domain.status import WorkerStatus

router = APIRouter(tags=["health"], route_class=LazyRoute)


class WorkerRead(Schema):
    """A running worker."""

    id: str
    host: str
    pid: int
    partitions: int = Field(description="of all topics, which it reads and delivers")
    applied_change: int = Field(
        description="the number of the last change of topics and subscriptions that it has applied"
    )
    started_at: str = Field(description="RFC 3339")
    seen_at: str = Field(description="when it last reported, RFC 3339")

    @classmethod
    def of(cls, worker: WorkerStatus) -> "WorkerRead":
        """Return the response for a worker."""
        return cls(
            id=worker.id,
            host=worker.host,
            pid=worker.pid,
            partitions=worker.partitions,
            applied_change=worker.applied_change,
            started_at=worker.started_at.isoformat(),
            seen_at=worker.seen_at.isoformat(),
        )


class OwnedPartitionsRead(Schema):
    """The partitions of a topic that a worker delivers to its subscriptions."""

    topic: str
    partitions: list[int]


@router.get(
    "/workers",
    dependencies=[requires(Role.ANY)],
    responses=answers(WorkerRead, many=True) | errors(),
)
async def list_workers(services: ServicesOf) -> Response:
    """Return the running workers, by id. Each worker reports every second."""
    return answer([WorkerRead.of(each).answered() for each in await services.workers.live()])


@router.get(
    "/workers/{worker}/partitions",
    dependencies=[requires(Role.ANY)],
    responses=answers(OwnedPartitionsRead, many=True) | errors(400, 404),
)
async def list_partitions(
    worker: Annotated[str, Path(description="id of the worker")],
    *,
    request: Request,
    page: NamePageOf,
    services: ServicesOf,
) -> Response:
    """Return the partitions that a worker delivers, by topic; `Link` leads to the next page."""
    owned = await services.workers.owned(worker, page)
    full = page.limit is not None and len(owned) == page.limit
    link = next_link(request, owned[-1].topic) if full else {}
    rows = [
        OwnedPartitionsRead(topic=each.topic, partitions=list(each.partitions)) for each in owned
    ]
    return answer([each.answered() for each in rows], notes=AnswerNotes(extra=link))
