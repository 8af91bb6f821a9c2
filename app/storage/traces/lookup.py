"""Finds everything that is known about one message by its id, usually with one statement.

Each round trip to the database takes time. So one statement returns everything, in rows of
different kinds.
"""

import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from psycopg.types.numeric import Int4
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from app.domain.trace import TraceEntry, TraceSource, TraceStatus
from app.storage.catalogue.ids import no_subscription, no_topic
from app.storage.discards.pages import MESSAGE_ID_MAX
from app.storage.tables import TRACE_LOSSES, pack_key
from app.storage.texts import storable
from app.storage.traces.packs import entries_in
from app.storage.traces.single_entries import recorded_by_rows

# The number of packs that are read at a time. A message is usually in one or two packs. A message
# that is retried for hours is in hundreds of packs.
PACKS_AT_ONCE: Final = 16
# The number of records of lost entries that the first statement reads. Usually there are none.
LOSSES_AT_ONCE: Final = 64

_PACKS: Final = f"""
SELECT at, body FROM trace_packs WHERE message_keys @> ARRAY[%(key)s::int4]
ORDER BY at LIMIT {PACKS_AT_ONCE}
"""  # noqa: S608 - the statement is made of constants only
_MORE_PACKS: Final = f"{_PACKS} OFFSET %(offset)s"
_PACK, _DISCARD, _LOSS, _TOPIC, _SUBSCRIPTION, _BY_ROWS = range(6)
_KNOWN: Final = f"""
SELECT {_PACK}, at, body, NULL::text[], NULL::int8[] FROM ({_PACKS}) AS packs
UNION ALL
SELECT {_DISCARD}, discarded_at, NULL, ARRAY[subscription_id, topic, subscription, reason],
  ARRAY[id, status, attempts, partition, "offset"]
FROM (
  SELECT * FROM undelivered WHERE message_id = %(stored_id)s
    AND (%(topic)s::text IS NULL OR topic = %(topic)s)
    AND (%(subscription)s::text IS NULL OR subscription_id = (
      SELECT id FROM subscriptions WHERE topic = %(topic)s AND name = %(subscription)s))
  ORDER BY discarded_at DESC, id DESC LIMIT %(limit)s
) AS discards
UNION ALL
SELECT {_LOSS}, at, NULL, NULL, ARRAY[entries]
FROM (
  SELECT at, entries FROM trace_losses ORDER BY at DESC LIMIT {LOSSES_AT_ONCE}
) AS losses
UNION ALL
SELECT {_TOPIC}, NULL, NULL, NULL, NULL FROM topics WHERE name = %(topic)s
UNION ALL
SELECT {_SUBSCRIPTION}, NULL, NULL, ARRAY[id], NULL
FROM subscriptions WHERE topic = %(topic)s AND name = %(subscription)s
UNION ALL
SELECT {_BY_ROWS}, NULL, NULL, NULL, NULL
WHERE EXISTS (SELECT FROM pg_inherits WHERE inhparent = 'traces'::regclass)
"""  # noqa: S608 - the statement is made of constants only


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuestion:
    """A question: what happened to a message in all topics, in a topic, or in a subscription."""

    message_id: str
    topic: str | None = None
    subscription: str | None = None


class _Row(NamedTuple):
    """A row of the statement's result. Rows of all kinds have the same columns.

    There are few columns, because each column takes more time than its content.
    """

    kind: int
    at: datetime
    body: bytes
    texts: list[str]
    numbers: list[Any]


class KnownTrace(NamedTuple):
    """The result of the first statement. It may have only a part of the packs and losses.

    `discards` begin with the newest. `by_rows` means that there may also be entries from earlier
    versions, with one entry in each row.
    """

    subscription_id: str | None
    bodies: Sequence[bytes]
    discards: Sequence[TraceEntry]
    losses: Sequence[tuple[datetime, int]]
    by_rows: bool


class TraceLookup:
    """Reads at most `limit` trace entries of a message, and its discards."""

    def __init__(
        self, connection: AsyncConnection, requested: TraceQuestion, *, limit: int
    ) -> None:
        self._connection = connection
        self._requested = requested
        self._limit = limit
        self._key = Int4(pack_key(requested.message_id))

    async def known(self) -> KnownTrace:
        """Return the result of the first statement.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        requested = self._requested
        stored_id = storable(requested.message_id[:MESSAGE_ID_MAX])
        values = {
            "key": self._key,
            "stored_id": stored_id,
            "topic": requested.topic,
            "subscription": requested.subscription,
            "limit": self._limit,
        }
        rows: Mapping[int, list[_Row]] = defaultdict(list)
        for row in await self._connection.exec_driver_sql(_KNOWN, values):
            rows[row[0]].append(_Row._make(row))
        _require(requested, rows)
        return _known(rows, stored_id)

    async def entries(self, known: KnownTrace) -> Sequence[TraceEntry]:
        """Return the trace entries of the message, the oldest first.

        If a topic or a subscription is requested, return only the entries about it.
        """

        def wanted(entries: Iterable[TraceEntry]) -> Iterable[TraceEntry]:
            topic, its_id = self._requested.topic, known.subscription_id
            return (each for each in entries if _is_of(each.source, topic, its_id))

        message_id, found = self._requested.message_id, list[TraceEntry]()
        if known.by_rows:
            rows = await recorded_by_rows(self._connection, message_id, limit=self._limit)
            found += wanted(rows)
        async for body in self._bodies(known):
            found += wanted(entries_in(body, message_id))
            if len(found) >= self._limit:
                break
        return sorted(found, key=lambda each: each.at)[: self._limit]

    async def lost(self, known: KnownTrace, since: datetime, until: datetime) -> int:
        """Return how many trace entries between the two times are missing, of any message."""
        losses = known.losses
        if len(losses) < LOSSES_AT_ONCE or losses[-1][0] < since:
            return sum(entries for at, entries in losses if since <= at < until)
        return await lost_entries(self._connection, since, until)

    async def _bodies(self, known: KnownTrace) -> AsyncIterator[bytes]:
        """Yield the packs that have the message, usually those with the oldest entries first."""
        bodies = known.bodies
        for offset in itertools.count(PACKS_AT_ONCE, PACKS_AT_ONCE):
            for body in bodies:
                # Yield the packs one after another, without a pause for other work. Finding a
                # message in a pack takes less than a tenth of a millisecond.
                yield body
            if len(bodies) < PACKS_AT_ONCE:
                return
            values = {"key": self._key, "offset": offset}
            rows = await self._connection.exec_driver_sql(_MORE_PACKS, values)
            bodies = list(rows.scalars(1))


async def lost_entries(
    connection: AsyncConnection | AsyncSession, since: datetime, until: datetime
) -> int:
    """Return how many trace entries between the two times are missing."""
    query = select(func.coalesce(func.sum(TRACE_LOSSES.c.entries), 0)).where(
        TRACE_LOSSES.c.at >= since, TRACE_LOSSES.c.at < until
    )
    return int(await connection.scalar(query) or 0)


def _require(requested: TraceQuestion, rows: Mapping[int, Sequence[_Row]]) -> None:
    if requested.topic is None:
        return
    if not rows[_TOPIC]:
        raise no_topic(requested.topic)
    if requested.subscription is not None and not rows[_SUBSCRIPTION]:
        raise no_subscription(requested.topic, requested.subscription)


def _known(rows: Mapping[int, Sequence[_Row]], message_id: str) -> KnownTrace:
    newest = sorted(rows[_DISCARD], key=lambda row: (row.at, row.numbers[0]), reverse=True)
    losses = sorted(rows[_LOSS], key=lambda row: row.at, reverse=True)
    return KnownTrace(
        subscription_id=next((row.texts[0] for row in rows[_SUBSCRIPTION]), None),
        bodies=[row.body for row in sorted(rows[_PACK], key=lambda row: row.at)],
        discards=[_discarded(row, message_id) for row in newest],
        losses=[(row.at, row.numbers[0]) for row in losses],
        by_rows=bool(rows[_BY_ROWS]),
    )


def _discarded(row: _Row, message_id: str) -> TraceEntry:
    subscription_id, topic, subscription, reason = row.texts
    _, status, attempts, partition, offset = row.numbers
    return TraceEntry(
        source=TraceSource(topic=topic, subscription_id=subscription_id, subscription=subscription),
        message_id=message_id,
        at=row.at,
        status=TraceStatus.DISCARDED,
        partition=partition,
        offset=offset,
        attempt=attempts,
        status_code=status,
        reason=reason,
    )


def _is_of(source: TraceSource, topic: str | None, subscription_id: str | None) -> bool:
    if topic is not None and source.topic != topic:
        return False
    return subscription_id is None or source.subscription_id in {"", subscription_id}
