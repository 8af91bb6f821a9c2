"""Retransmissions as Spark chooses their messages: by calls that block, from any machine.

URLs are as psycopg has them (`app.storage.urls.libpq_url`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg import sql

from app.domain.errors import RetransmissionNotFoundError
from app.domain.filters import Filter
from app.domain.job import Claim
from app.domain.retransmission import Request, Span
from app.domain.subscription import Subscription
from app.storage.copying import connected
from app.storage.retransmissions import request_of
from app.storage.settings import from_json

# Of undelivered messages, with their bodies, so many are in memory at a time.
SLICE: Final = 500
PLACES_SLICE: Final = 10_000
_ENDS: Final = ("SUCCESS", "DISCARDED", "FILTERED")

_ASKED: Final = sql.SQL("""
SELECT r.subscription_id, r.topic, r.request, s.settings
FROM retransmissions r JOIN subscriptions s ON s.id = r.subscription_id WHERE r.id = {job_id}
""")
_RECORDED: Final = sql.SQL("SELECT topic, partition, next_offset FROM recorder_positions")
_LOST: Final = sql.SQL("SELECT coalesce(sum(entries), 0) FROM trace_losses WHERE at >= {since}")
_TRACED: Final = sql.SQL("""
SELECT t.partition, min(t."offset") FROM traces t JOIN trace_sources s ON s.id = t.source
WHERE s.subscription_id = {subscription_id} AND t."offset" >= 0 GROUP BY t.partition
""")
_TOTALS: Final = sql.SQL("""
SELECT coalesce(sum(messages), 0), coalesce(sum(size), 0) FROM retransmission_runs
WHERE job_id = {job_id} AND attempt = {attempt}
""")
_DISCARDS: Final = sql.SQL("""
SELECT id, partition, "offset", (extract(epoch FROM discarded_at) * 1000)::bigint, message_id, key,
  body, headers
FROM undelivered
WHERE id >= {first} AND id < {end} AND subscription_id = {subscription_id}
  AND discarded_at >= {since} AND discarded_at < {until} AND redriven_at IS NULL
  AND (cardinality({statuses}::int[]) = 0 OR status = ANY({statuses}::int[]))
ORDER BY id LIMIT {limit}
""")
_FINISHED: Final = sql.SQL("""
SELECT t.partition, t."offset" FROM traces t JOIN trace_sources s ON s.id = t.source
WHERE s.subscription_id = {subscription_id} AND t.at >= {first} AND t.at < {end}
  AND t.status = ANY({ends}) AND t."offset" >= 0
""")
_DISCARDED: Final = sql.SQL("""
SELECT partition, "offset" FROM undelivered WHERE subscription_id = {subscription_id}
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a job is to choose, and which messages the subscription wants as it is now."""

    subscription_id: str
    topic: str
    request: Request
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discards:
    """The discards of a subscription, of a time, that were not sent again."""

    subscription_id: str
    since: datetime
    until: datetime
    statuses: tuple[int, ...] = ()


def asked_for(url: str, job_id: str) -> Asked:
    """What that job is to choose; RetransmissionNotFoundError: its subscription is gone."""
    with connected(url) as connection:
        row = connection.execute(_ASKED.format(job_id=job_id)).fetchone()
    if row is None:
        raise RetransmissionNotFoundError(f"The subscription of retransmission {job_id} is deleted")
    subscription_id, topic, request, settings = row
    stored = {"filters": settings.get("filters", [])}
    filters = from_json(Subscription, stored)["filters"]
    return Asked(
        subscription_id=subscription_id,
        topic=topic,
        request=request_of(request),
        filters=filters,
    )


def unrecorded(url: str, streams: Sequence[Span]) -> int:
    """How many records of those streams are not recorded yet."""
    with connected(url) as connection:
        rows = connection.execute(_RECORDED).fetchall()
    at = {(topic, partition): offset for topic, partition, offset in rows}
    return sum(max(0, each.end - at.get((each.topic, each.partition), 0)) for each in streams)


def lost_traces(url: str, since: datetime) -> int:
    """How many entries that belong into traces were lost since then."""
    with connected(url) as connection:
        (lost,) = connection.execute(_LOST.format(since=since)).fetchone() or (0,)
    return int(lost)


def first_traced(url: str, subscription_id: str) -> Mapping[int, int]:
    """Of each partition, the first offset of which the subscription has left a trace."""
    query = _TRACED.format(subscription_id=subscription_id)
    with connected(url) as connection:
        return dict(connection.execute(query).fetchall())


def totals(url: str, claim: Claim) -> tuple[int, int]:
    """How many messages that taking of the job has chosen, and the bytes of their bodies."""
    query = _TOTALS.format(job_id=claim.job_id, attempt=claim.attempt)
    with connected(url) as connection:
        messages, size = connection.execute(query).fetchone() or (0, 0)
    return int(messages), int(size)


def discards(url: str, ids: tuple[int, int], wanted: Discards) -> Iterator[Sequence[Any]]:
    """The wanted ones in that range of ids, in slices of (id, partition, offset, ms, …) rows.

    What follows is the message's id, key, body and headers (a list of pairs).
    """
    first, end = ids
    with connected(url) as connection:
        cursor = connection.cursor(binary=True)
        while first < end:
            query = _DISCARDS.format(
                first=first,
                end=end,
                limit=SLICE,
                subscription_id=wanted.subscription_id,
                since=wanted.since,
                until=wanted.until,
                statuses=list(wanted.statuses),
            )
            rows = cursor.execute(query).fetchall()
            if not rows:
                return
            yield rows
            first = rows[-1][0] + 1


def finished_places(
    url: str, subscription_id: str, when: tuple[datetime, datetime] | None
) -> Iterator[Sequence[Any]]:
    """Places whose end was traced at that time; None: those that were discarded, at any time."""
    query = _DISCARDED.format(subscription_id=subscription_id)
    if when is not None:
        first, end = when
        query = _FINISHED.format(
            subscription_id=subscription_id, first=first, end=end, ends=list(_ENDS)
        )
    with connected(url) as connection, connection.cursor(name="places", binary=True) as cursor:
        cursor.execute(query)
        while rows := cursor.fetchmany(PLACES_SLICE):
            yield rows


def hours(first: datetime, end: datetime, *, at_most: int) -> Sequence[tuple[datetime, datetime]]:
    """From `first` to before `end` in hours, or in so many longer times."""
    length = max(timedelta(hours=1), (end - first) / at_most)
    found = []
    while first < end:
        found.append((first, min(first + length, end)))
        first += length
    return found
