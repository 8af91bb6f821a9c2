"""`/jobs`: requests for Spark jobs."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from app.api.access import CallerOf, requires
from app.api.bodies.moments import instant_of
from app.api.dependencies import Services, ServicesOf
from app.api.documented import (
    LINK_HEADER,
    QUEUE_FULL,
    answers,
    errors,
    refusal,
    takes,
)
from app.api.idempotency import RepeatableRoute
from app.api.management.insight.job_bodies import (
    JobBody,
    JobRead,
    job_body,
    job_state_of,
    jobs_read,
)
from app.api.media import LIMIT_MAX, AnswerNotes, answer, json_request, limit_of
from app.api.pages import next_link
from app.domain.access.keys import Caller, Role
from app.domain.errors import SubscriptionNotFoundError, TopicNotFoundError
from app.domain.job import JobKind, JobScope
from app.services.access.authorization import Target

router = APIRouter(prefix="/jobs", tags=["jobs"], route_class=RepeatableRoute)

WINDOW_DEFAULT: Final = timedelta(days=1)

_ENDED: Final = refusal(
    409, description="It has ended", code="JOB_ENDED", message="Job 4f1c is DONE already"
)

JobId = Annotated[str, Path(description="id of the job")]


@router.post(
    "",
    dependencies=[requires(Role.CREATOR)],
    status_code=202,
    responses=answers(JobRead, status=202)
    | errors(400, 413, 415, TopicNotFoundError, SubscriptionNotFoundError)
    | QUEUE_FULL,
    openapi_extra=takes(JobBody, {"kind": "UNDELIVERED_ANALYTICS", "from": "2026-01-31T00:00:00Z"}),
)
async def request_job(request: Request, services: ServicesOf, caller: CallerOf) -> Response:
    """Request a job, which the next free Spark runner takes; `Location` leads to it."""
    requested = await json_request(request)
    body = job_body(requested.body)
    await _require_owner(services, caller, body.topic)
    seen = await services.jobs.request(JobKind(body.kind), _scope(body, datetime.now(UTC)))
    [job] = jobs_read(seen)
    notes = AnswerNotes(extra={"Location": f"/jobs/{job.id}"})
    return answer(job, 202, notes)


@router.get(
    "",
    dependencies=[requires(Role.ANY)],
    responses=answers(JobRead, many=True, headers=LINK_HEADER) | errors(400),
)
async def list_jobs(
    services: ServicesOf,
    *,
    state: Annotated[str | None, Query(description="only jobs in this state")] = None,
    request: Request,
    limit: Annotated[str | None, Query(description=f"1 to {LIMIT_MAX}, 100 by default")] = None,
    after: Annotated[str | None, Query(description="jobs older than the one of this id")] = None,
) -> Response:
    """Return the newest jobs, without their logs; `Link` leads to older ones."""
    wanted = limit_of(limit)
    seen = await services.jobs.newest(limit=wanted, state=job_state_of(state), after=after)
    link = next_link(request, seen.jobs[-1].id) if len(seen.jobs) == wanted else {}
    return answer([job.answered() for job in jobs_read(seen)], notes=AnswerNotes(extra=link))


@router.get("/{job}", dependencies=[requires(Role.ANY)], responses=answers(JobRead) | errors(404))
async def get_job(job: JobId, services: ServicesOf) -> Response:
    """Return one job: its state, its progress, and the last lines of its log."""
    [found] = jobs_read(await services.jobs.get(job), with_log=True)
    return answer(found)


@router.delete(
    "/{job}",
    dependencies=[requires(Role.CREATOR)],
    responses=answers(JobRead) | errors(404) | _ENDED,
)
async def cancel_job(job: JobId, services: ServicesOf, caller: CallerOf) -> Response:
    """Cancel a job: immediately if it waits, within seconds if it runs."""
    [requested] = (await services.jobs.get(job)).jobs
    await _require_owner(services, caller, requested.scope.topic)
    [cancelled] = jobs_read(await services.jobs.cancel(job), with_log=True)
    return answer(cancelled)


def _scope(body: JobBody, now: datetime) -> JobScope:
    end = instant_of(body.to, path="to") or now
    start = instant_of(body.from_, path="from") or end - WINDOW_DEFAULT
    slo = None if body.slo_seconds is None else timedelta(seconds=body.slo_seconds)
    return JobScope(start=start, end=end, topic=body.topic, subscription=body.subscription, slo=slo)


async def _require_owner(services: Services, caller: Caller, topic: str | None) -> None:
    """Refuse a caller that may not request or cancel the job.

    A job about one topic needs an owner of the topic. A job about all topics needs an admin.
    """
    role = Role.ADMIN if topic is None else Role.TOPIC_OWNER
    await services.access.require(caller, role, Target(topic=topic))
