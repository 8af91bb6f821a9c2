"""`/offline-retransmission`: publishes messages of a time span again (as in Hermes)."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from app.api.access import CallerOf, requires
from app.api.dependencies import ServicesOf, TopicName
from app.api.documented import IGNORED_HEADER, QUEUE_FULL, answers, errors, refusal, takes
from app.api.idempotency import RepeatableRoute
from app.api.management.replay.republishing_bodies import (
    OfflineTaskBody,
    OfflineTaskRead,
    ignored_in_task,
    tasks_read,
    wanted_task,
)
from app.api.media import LIMIT_MAX, AnswerNotes, answer, json_request, limit_of
from app.domain.access.keys import Role
from app.domain.errors import LogUnavailableError, TopicNotFoundError
from app.services.access.authorization import Target

router = APIRouter(
    prefix="/offline-retransmission", tags=["operations"], route_class=RepeatableRoute
)

_ENDED: Final = refusal(
    409, description="It has ended", code="JOB_ENDED", message="Job 4f1c is DONE already"
)
_EXAMPLE: Final = {
    "type": "topic",
    "sourceTopic": "shop.orders",
    "targetTopic": "shop.again",
    "startTimestamp": "2026-01-30T00:00:00Z",
    "endTimestamp": "2026-01-31T00:00:00Z",
}

TaskId = Annotated[str, Path(description="id of the task, and of its job")]
Limit = Annotated[str | None, Query(description=f"1 to {LIMIT_MAX}, 100 by default")]


@router.post(
    "/tasks",
    dependencies=[requires(Role.CREATOR)],
    status_code=201,
    responses=answers(OfflineTaskRead, status=201, headers=IGNORED_HEADER)
    | errors(400, 413, 415, TopicNotFoundError, LogUnavailableError)
    | QUEUE_FULL,
    openapi_extra=takes(OfflineTaskBody, _EXAMPLE),
)
async def request_offline_task(
    request: Request, services: ServicesOf, caller: CallerOf
) -> Response:
    """Publish messages of a time span to a topic, for owners of both topics; see `Location`.

    All subscriptions of the target topic get them as new messages. The next free Spark runner does
    the task.
    """
    requested = await json_request(request)
    wanted = wanted_task(requested.body, strict=requested.strict)
    for topic in (wanted.source, wanted.target):
        await services.access.require(caller, Role.TOPIC_OWNER, Target(topic=topic))
    seen = await services.offline.request(
        wanted.source, wanted.target, since=wanted.since, until=wanted.until
    )
    [task] = tasks_read(seen)
    where = {"Location": f"/offline-retransmission/tasks/{task.task_id}"}
    return answer(task, 201, AnswerNotes(ignored=ignored_in_task(requested.body), extra=where))


@router.get(
    "/tasks",
    dependencies=[requires(Role.ANY)],
    responses=answers(OfflineTaskRead, many=True) | errors(400),
)
async def offline_tasks(services: ServicesOf, limit: Limit = None) -> Response:
    """Return the newest tasks that publish a topic's messages again."""
    seen = await services.offline.newest(limit=limit_of(limit))
    return answer([task.answered() for task in tasks_read(seen)])


@router.get(
    "/tasks/{task}",
    dependencies=[requires(Role.ANY)],
    responses=answers(OfflineTaskRead) | errors(404),
)
async def get_offline_task(task: TaskId, services: ServicesOf) -> Response:
    """Return one task: its progress, and which messages were not published."""
    [found] = tasks_read(await services.offline.get(task))
    return answer(found)


@router.get(
    "/topics/{topic}/tasks",
    dependencies=[requires(Role.ANY)],
    responses=answers(OfflineTaskRead, many=True) | errors(400, 404),
)
# The path with a slash at its end is served too, because Hermes' console uses it.
@router.get("/topics/{topic}/tasks/", dependencies=[requires(Role.ANY)], include_in_schema=False)
async def offline_tasks_of_topic(
    topic: TopicName, services: ServicesOf, limit: Limit = None
) -> Response:
    """Return the newest tasks that have this topic as source or target."""
    seen = await services.offline.newest(limit=limit_of(limit), topic=topic)
    return answer([task.answered() for task in tasks_read(seen)])


@router.delete(
    "/tasks/{task}",
    dependencies=[requires(Role.CREATOR)],
    responses=answers(OfflineTaskRead) | errors(404) | _ENDED,
)
async def cancel_offline_task(task: TaskId, services: ServicesOf, caller: CallerOf) -> Response:
    """Cancel a task, for owners of its target topic. Messages published so far stay."""
    [requested] = (await services.offline.get(task)).tasks
    target = Target(topic=requested.request.target)
    await services.access.require(caller, Role.TOPIC_OWNER, target)
    [cancelled] = tasks_read(await services.offline.cancel(task))
    return answer(cancelled)
