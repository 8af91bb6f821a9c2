"""`/topics/{topic}/subscriptions/{name}/simulate`: the effect of other filters and rates."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import QUEUE_FULL, answers, errors, takes
from app.api.idempotency import RepeatableRoute
from app.api.management.insight.job_bodies import JobRead, jobs_read
from app.api.management.insight.simulation_bodies import (
    SimulateBody,
    SimulationRead,
    simulation_read,
    wanted_of,
)
from app.api.media import LIMIT_MAX, AnswerNotes, answer, json_request_or_none, limit_of
from app.domain.access.keys import Role
from app.domain.errors import LogUnavailableError

router = APIRouter(
    prefix="/topics/{topic}/subscriptions/{name}",
    tags=["subscriptions"],
    route_class=RepeatableRoute,
)


@router.post(
    "/simulate",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    status_code=202,
    responses=answers(JobRead, status=202)
    | errors(400, 404, 413, 415, LogUnavailableError)
    | QUEUE_FULL,
    openapi_extra=takes(SimulateBody, {"from": "-6h", "rate": 50}),
)
async def simulate(
    topic: TopicName, name: SubscriptionName, *, request: Request, services: ServicesOf
) -> Response:
    """Let Spark try other filters and another rate on published messages; see `Location`."""
    requested = await json_request_or_none(request)
    wanted = wanted_of(requested.body, now=datetime.now(UTC))
    [job] = jobs_read(await services.simulating.request(topic, name, wanted))
    where = f"/topics/{topic}/subscriptions/{name}/simulations/{job.id}"
    return answer(job, 202, AnswerNotes(extra={"Location": where}))


@router.get(
    "/simulations/{simulation}",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(SimulationRead) | errors(400, 404),
)
async def get_simulation(
    topic: TopicName,
    name: SubscriptionName,
    simulation: Annotated[str, Path(description="id of the simulation, and of its job")],
    *,
    services: ServicesOf,
    limit: Annotated[
        str | None, Query(description=f"minutes: 1 to {LIMIT_MAX}, 100 by default")
    ] = None,
) -> Response:
    """Return a simulation, with its result when it is DONE."""
    seen = await services.simulating.get(topic, name, job_id=simulation, limit=limit_of(limit))
    return answer(simulation_read(seen))
