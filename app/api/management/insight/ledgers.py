"""`/topics/{topic}/subscriptions/{name}/ledger`: what became of every message, provably."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.moments import instant_of
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import QUEUE_FULL, answers, errors
from app.api.idempotency import RepeatableRoute
from app.api.management.insight.job_bodies import JobRead, jobs_read
from app.api.management.insight.ledger_bodies import (
    LedgerCheckRead,
    LedgerRead,
    check_read,
    known_of,
    ledger_read,
)
from app.api.media import LIMIT_MAX, AnswerNotes, answer, limit_of
from app.domain.access.keys import Role
from app.domain.errors import LogUnavailableError

router = APIRouter(
    prefix="/topics/{topic}/subscriptions/{name}/ledger",
    tags=["subscriptions"],
    route_class=RepeatableRoute,
)


@router.get(
    "",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(LedgerRead) | errors(400, 404, LogUnavailableError),
)
async def get_ledger(
    topic: TopicName,
    name: SubscriptionName,
    *,
    services: ServicesOf,
    since: Annotated[
        str | None, Query(alias="from", description="RFC 3339 or ms; 31 days before `to`")
    ] = None,
    until: Annotated[
        str | None,
        Query(
            alias="to",
            description="RFC 3339 or ms; the last midnight (UTC), or the end of the newest entry if"
            " that is later; now, if `from` is later than both",
        ),
    ] = None,
    limit: Annotated[str | None, Query(description=f"1 to {LIMIT_MAX}, 100 by default")] = None,
) -> Response:
    """What became of all messages of a time, and the entries that say so, oldest first.

    Sums and doubts are of all entries that are about some of it, and of the time that these cover;
    with `limit`, the newest of them are shown.
    """
    found = await services.ledgers.between(
        topic,
        name,
        since=instant_of(since, path="from"),
        until=instant_of(until, path="to"),
        limit=limit_of(limit),
    )
    return answer(ledger_read(found))


@router.post(
    "",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    status_code=202,
    responses=answers(JobRead, status=202) | errors(400, 404, LogUnavailableError) | QUEUE_FULL,
)
async def request_entry(topic: TopicName, name: SubscriptionName, services: ServicesOf) -> Response:
    """Have Spark make an entry of the time from the last one until now; `Location`: its job.

    If one is being made already, that is answered.
    """
    [job] = jobs_read(await services.ledgers.request(topic, name))
    return answer(job, 202, AnswerNotes(extra={"Location": f"/jobs/{job.id}"}))


@router.get(
    "/check",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(LedgerCheckRead) | errors(400, 404),
)
async def check_ledger(
    topic: TopicName,
    name: SubscriptionName,
    *,
    services: ServicesOf,
    number: Annotated[
        int | None, Query(ge=1, le=2**31 - 1, description="of an entry whose hash you kept")
    ] = None,
    hash_: Annotated[
        str | None, Query(alias="hash", max_length=64, description="its hash, in hex")
    ] = None,
) -> Response:
    """Follow the entries by their hashes: whether one was changed since it was written, and which.

    Whoever can write into the database could write unsigned ones anew, and drop the last. That
    shows, too, when you give the number and the hash of an entry that you have kept.
    """
    return answer(check_read(await services.ledgers.check(topic, name, known_of(number, hash_))))
