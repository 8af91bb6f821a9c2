"""Reads requests of retransmissions for Spark jobs, by calls that block, from any machine.

URLs are in psycopg's form (`app.postgres.urls.libpq_url`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from psycopg import sql

from app.domain.catalogue.filters import Filter
from app.domain.catalogue.subscription import Subscription
from app.domain.errors import RetransmissionNotFoundError
from app.domain.job import Claim
from app.domain.replay.retransmission import OffsetSpan, Request
from app.storage.json_values import from_json
from app.storage.replay.retransmissions import request_of
from app.storage.spark.copying import connected

_REQUEST: Final = sql.SQL("""
SELECT r.subscription_id, r.topic, r.request, s.settings
FROM retransmissions r JOIN subscriptions s ON s.id = r.subscription_id WHERE r.id = {job_id}
""")
_RECORDED: Final = sql.SQL("SELECT topic, partition, next_offset FROM recorder_positions")
_LOST: Final = sql.SQL("SELECT coalesce(sum(entries), 0) FROM trace_losses WHERE at >= {since}")
_TRACED: Final = sql.SQL("""
WITH own AS (SELECT id FROM trace_sources WHERE subscription_id = {subscription_id}),
traced AS (
  SELECT t.partition, t."offset" FROM traces t JOIN own ON own.id = t.source WHERE t."offset" >= 0
  UNION ALL
  SELECT f.partition, f."offset" FROM trace_packs p,
    unnest(p.sources, p.partitions, p.first_offsets) AS f(source, partition, "offset"), own
  WHERE p.sources && ARRAY(SELECT id FROM own) AND f.source = own.id
)
SELECT partition, min("offset") FROM traced GROUP BY partition
""")
_TOTALS: Final = sql.SQL("""
SELECT coalesce(sum(messages), 0), coalesce(sum(size), 0),
  coalesce(sum(messages) FILTER (WHERE archived), 0), coalesce(sum(size) FILTER (WHERE archived), 0)
FROM retransmission_runs WHERE job_id = {job_id} AND attempt = {attempt}
""")
_WAITING: Final = sql.SQL("""
SELECT coalesce(sum(archived_size), 0) FROM retransmissions WHERE state = 'SENDING'
""")
_STAGED: Final = sql.SQL("""
SELECT count(*) FROM retransmission_records WHERE job_id = {job_id} AND attempt = {attempt}
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceRequest:
    """A retransmission's request, for the job that chooses its messages.

    It also has the current filters of the subscription.
    """

    id: str
    subscription_id: str
    topic: str
    request: Request
    filters: tuple[Filter, ...]


def requested_choice(url: str, job_id: str) -> ChoiceRequest:
    """Return the request of that job.

    Raises:
        RetransmissionNotFoundError: The subscription of the retransmission was deleted.
    """
    with connected(url) as connection:
        row = connection.execute(_REQUEST.format(job_id=job_id)).fetchone()
    if row is None:
        raise RetransmissionNotFoundError(f"The subscription of retransmission {job_id} is deleted")
    subscription_id, topic, request, settings = row
    stored = {"filters": settings.get("filters", [])}
    filters = from_json(Subscription, stored)["filters"]
    return ChoiceRequest(
        id=job_id,
        subscription_id=subscription_id,
        topic=topic,
        request=request_of(request),
        filters=filters,
    )


def unrecorded(url: str, streams: Sequence[OffsetSpan]) -> int:
    """Return how many records in these ranges of streams are not stored in the database yet."""
    with connected(url) as connection:
        rows = connection.execute(_RECORDED).fetchall()
    at = {(topic, partition): offset for topic, partition, offset in rows}
    return sum(max(0, each.end - at.get((each.topic, each.partition), 0)) for each in streams)


def lost_traces(url: str, since: datetime) -> int:
    """Return how many trace entries were lost since the time `since`."""
    with connected(url) as connection:
        (lost,) = connection.execute(_LOST.format(since=since)).fetchone() or (0,)
    return int(lost)


def first_traced(url: str, subscription_id: str) -> Mapping[int, int]:
    """Return, by partition, the first offset for which there is a trace of the subscription."""
    query = _TRACED.format(subscription_id=subscription_id)
    with connected(url) as connection:
        return dict(connection.execute(query).fetchall())


class Totals(NamedTuple):
    """The number and size of the chosen messages, and of those that only the archive has."""

    messages: int = 0
    size: int = 0
    archived: int = 0
    archived_size: int = 0


def totals(url: str, claim: Claim) -> Totals:
    """Return the totals of the messages that the job has chosen so far under `claim`.

    Only the runner that has this claim stores its choice.
    """
    query = _TOTALS.format(job_id=claim.job_id, attempt=claim.attempt)
    with connected(url) as connection:
        return Totals._make(map(int, connection.execute(query).fetchone() or ()))


def counts_of(total: Totals) -> Mapping[str, int]:
    """Return the counts in `total` in the form of a job's result."""
    return {
        "messages": total.messages,
        "bytes": total.size,
        "archived": total.archived,
        "archivedBytes": total.archived_size,
    }


def bytes_waiting(url: str) -> int:
    """Return the bytes of archived bodies that wait to be sent, of all retransmissions."""
    with connected(url) as connection:
        (size,) = connection.execute(_WAITING).fetchone() or (0,)
    return int(size)


def staged(url: str, claim: Claim) -> int:
    """Return how many archived records the job has stored under this claim."""
    query = _STAGED.format(job_id=claim.job_id, attempt=claim.attempt)
    with connected(url) as connection:
        (count,) = connection.execute(query).fetchone() or (0,)
    return int(count)
