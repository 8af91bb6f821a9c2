"""`/topics/{topic}/subscriptions/{name}/ledger`: what happened to every message, with proof."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.moments import instant_of
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import LINK_HEADER, QUEUE_FULL, answers, errors
from app.api.idempotency import RepeatableRoute
from app.api.lazy_route import LazyRoute
from app.api.management.insight.job_bodies import JobRead, jobs_read
from app.api.management.insight.ledger_bodies import (
    LedgerCheckRead,
    LedgerKeyRead,
    LedgerLinkRead,
    LedgerRead,
    check_read,
    keys_read,
    known_of,
    ledger_read,
    links_read,
)
from app.api.media import LIMIT_MAX, AnswerNotes, answer, limit_of
from app.api.pages import next_link
from app.domain.access.keys import Role
from app.domain.errors import LogUnavailableError

router = APIRouter(
    prefix="/topics/{topic}/subscriptions/{name}/ledger",
    tags=["subscriptions"],
    route_class=RepeatableRoute,
)
keys = APIRouter(prefix="/ledgers/keys", tags=["subscriptions"], route_class=LazyRoute)


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
    """Return what happened to the messages of a time span, and the entries about it.

    Sums, and doubts about them, cover all entries that overlap the span, and the whole time of
    these entries. With `limit`, only the newest of these entries are shown.
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
    """Let Spark write an entry from the last one until now; `Location` leads to its job.

    If a job is already writing an entry, the response is that job.
    """
    [job] = jobs_read(await services.ledgers.request(topic, name))
    return answer(job, 202, AnswerNotes(extra={"Location": f"/jobs/{job.id}"}))


@router.get(
    "/check",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(LedgerCheckRead) | errors(400, 404, LogUnavailableError),
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
    """Verify the entries: whether one was changed or removed after it was written, and which one.

    Entries must be signed if the service has a key that signs ledgers. The log also has the hash of
    each new entry, so removed entries are found. The ledger must have the entry whose number and
    hash you give.
    """
    return answer(check_read(await services.ledgers.check(topic, name, known_of(number, hash_))))


@router.get(
    "/export",
    dependencies=[requires(Role.SUBSCRIPTION_OWNER)],
    responses=answers(LedgerLinkRead, many=True, headers=LINK_HEADER) | errors(400, 404),
)
async def export_ledger(
    topic: TopicName,
    name: SubscriptionName,
    *,
    services: ServicesOf,
    request: Request,
    limit: Annotated[str | None, Query(description=f"1 to {LIMIT_MAX}, 100 by default")] = None,
    after: Annotated[
        int, Query(ge=0, le=2**31 - 1, description="only entries after this number")
    ] = 0,
) -> Response:
    """Return the entries as they are stored, oldest first, so that you can verify them yourself.

    `Link` leads to the next page. `GET /ledgers/keys` has the public keys.
    """
    most = limit_of(limit)
    links = await services.ledgers.exported(topic, name, after=after, limit=most)
    extra = next_link(request, str(links[-1].number)) if len(links) == most else {}
    return answer(links_read(links), notes=AnswerNotes(extra=extra))


@keys.get("", dependencies=[requires(Role.ANY)], responses=answers(LedgerKeyRead, many=True))
async def list_ledger_keys(services: ServicesOf) -> Response:
    """Return the public keys that verify signatures of ledgers. The key that signs now comes first.

    There are none if the service has no key (`ANGELIA_SECRET_KEY`).
    """
    return answer(keys_read(await services.ledgers.public_keys()))
