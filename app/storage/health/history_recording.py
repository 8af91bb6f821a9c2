"""Reads counts and recorded minutes of histories, and stores new minutes."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, case, false, func, literal, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.message import Partition
from app.domain.metrics.attempts import AttemptTotals
from app.domain.metrics.steps import Step
from app.storage.health.history_partitions import STEP_MINUTES
from app.storage.health.statuses import attempts_of
from app.storage.tables import METRICS_RECORDED, SubscriptionRow, TopicRow

_ROW: Final = METRICS_RECORDED.c
_COUNTS: Final = (
    _ROW.id,
    _ROW.hour,
    _ROW.published,
    _ROW.delivered,
    _ROW.discarded,
    _ROW.filtered,
    _ROW.lag,
    _ROW.workers,
)
_COUNTED: Final = text("""
WITH ends AS (
       SELECT * FROM json_to_recordset(CAST(:ends AS json)) AS fresh (
              topic text, partition int, "end" bigint))
SELECT cursors.subscription_id, sum(delivered)::bigint, sum(discarded)::bigint,
       sum(filtered)::bigint,
       sum(greatest(0, coalesce(ends."end", cursors."end") - "offset"))::bigint
  FROM cursors LEFT JOIN ends USING (topic, partition)
 WHERE cursors.subscription_id = ANY(:ids)
 GROUP BY cursors.subscription_id
""")
_REPORTED: Final = text("""
SELECT subscription_id, worker_id, counts->'attempts',
       CASE WHEN seen_at > clock_timestamp() - make_interval(secs => :within)
            THEN CAST(counts->'output'->>'rate' AS float8) END
  FROM subscription_loads
 WHERE subscription_id = ANY(:ids)
""")
# FOR KEY SHARE locks the topics and subscriptions, so that they cannot be deleted before the
# commit.
_ADD_TOPICS: Final = text("""
INSERT INTO metrics_recorded (hour, topic)
SELECT :hour, name FROM topics WHERE name = ANY(:names) FOR KEY SHARE
RETURNING topic AS name, id
""")
_ADD_SUBSCRIPTIONS: Final = text("""
INSERT INTO metrics_recorded (hour, subscription_id)
SELECT :hour, id FROM subscriptions WHERE id = ANY(:names) FOR KEY SHARE
RETURNING subscription_id AS name, id
""")
_WRITE: Final = text("""
UPDATE metrics_recorded AS recorded
   SET hour = new.hour, published = new.published, delivered = new.delivered,
       discarded = new.discarded, filtered = new.filtered, lag = new.lag, workers = new.workers,
       minutes = CASE WHEN recorded.hour = new.hour THEN recorded.minutes ELSE '' END || new.minute
  FROM unnest(CAST(:ids AS int[]), CAST(:hours AS timestamptz[]), CAST(:published AS bigint[]),
              CAST(:delivered AS bigint[]), CAST(:discarded AS bigint[]),
              CAST(:filtered AS bigint[]), CAST(:lags AS bigint[]), CAST(:workers AS bytea[]),
              CAST(:minutes AS bytea[]))
       AS new (id, hour, published, delivered, discarded, filtered, lag, workers, minute)
 WHERE recorded.id = new.id
""")
_APPEND: Final = text("""
INSERT INTO metrics_history AS known (start, source, step, body)
SELECT * FROM unnest(CAST(:starts AS timestamptz[]), CAST(:sources AS int[]),
                     CAST(:steps AS smallint[]), CAST(:bodies AS bytea[]))
ON CONFLICT (step, source, start) DO UPDATE SET body = known.body || excluded.body
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The recorded counts of a subscription or topic.

    If nothing is recorded yet, `id` is None, and all counts are zero.

    Attributes:
        id: The id of the history.
        hour: The hour to which `minutes` belongs.
        lag: The messages of the subscription that were not finished.
        workers: The attempts by worker, in the form of `app.domain.metrics.attempts`.
        minutes: The packed minutes of `hour`, if this hour has ended; otherwise empty.
    """

    id: int | None = None
    hour: datetime
    published: int | None = None
    delivered: int = 0
    discarded: int = 0
    filtered: int = 0
    lag: int = 0
    workers: bytes = b""
    minutes: bytes = b""


class RecordedTopic(NamedTuple):
    """A topic, with its recorded counts."""

    name: str
    partitions: int
    adopted: bool
    recorded: Recorded


class RecordedSubscription(NamedTuple):
    """A subscription, with its recorded counts."""

    id: str
    topic: str
    recorded: Recorded


class LifetimeCounts(NamedTuple):
    """The counts of a subscription since its creation, and its current lag in messages."""

    delivered: int = 0
    discarded: int = 0
    filtered: int = 0
    lag: int = 0


@dataclass(slots=True)
class ReportedLoad:
    """The attempts for a subscription by worker, and the rate that its workers allow now.

    The allowed rate is in requests per second, and None without a recent report.
    """

    attempts: dict[str, AttemptTotals] = field(default_factory=dict)
    allowed: float | None = None


class HistoryRow(NamedTuple):
    """Bytes to append to a row of `metrics_history`."""

    step: Step
    source: int
    start: datetime
    body: bytes


class HistoryRecording:
    """Reads counts, and writes histories, in the session's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def topics(self, names: Collection[str], hour: datetime) -> list[RecordedTopic]:
        """Return the existing topics with these names, and their recorded counts.

        `hour` is the hour that is recorded now. The recorded minutes of an earlier hour are
        included, because they are not in the history yet.
        """
        row = TopicRow
        adopted = func.coalesce(row.settings["adopted"].as_boolean(), false())
        query = select(row.name, row.partitions, adopted, *_COUNTS, _minutes_before(hour))
        joined = query.outerjoin(METRICS_RECORDED, _ROW.topic == row.name)
        found = await self._session.execute(joined.where(row.name.in_(names)))
        return [
            RecordedTopic(name, partitions, is_adopted, _recorded(rest, hour))
            for name, partitions, is_adopted, *rest in found
        ]

    async def subscriptions(
        self, topics: Collection[str], hour: datetime
    ) -> list[RecordedSubscription]:
        """Return the subscriptions of these topics, and their recorded counts.

        `hour` is the hour that is recorded now. The recorded minutes of an earlier hour are
        included, because they are not in the history yet.
        """
        return await self._found(SubscriptionRow.topic.in_(topics), hour)

    async def subscription(
        self, subscription_id: str, hour: datetime
    ) -> RecordedSubscription | None:
        """Return the subscription, if it exists, and its recorded counts.

        `hour` is the hour that is recorded now. The recorded minutes of an earlier hour are
        included, because they are not in the history yet.
        """
        found = await self._found(SubscriptionRow.id == subscription_id, hour)
        return found[0] if found else None

    async def counted(
        self, ids: Collection[str], ends: Mapping[Partition, int]
    ) -> Mapping[str, LifetimeCounts]:
        """Return the counts of these subscriptions.

        `ends` has the ends of partitions, up to which the lag is counted. For a partition that is
        not in `ends`, the end that its worker has reported is used.
        """
        known = [{"topic": p.topic, "partition": p.index, "end": end} for p, end in ends.items()]
        bound = {"ends": json.dumps(known), "ids": list(ids)}
        rows = await self._session.execute(_COUNTED, bound)
        return {each: LifetimeCounts(*counts) for each, *counts in rows}

    async def reported(self, ids: Collection[str], within: timedelta) -> Mapping[str, ReportedLoad]:
        """Return the workers' reports of these subscriptions.

        A rate is used only if its report is not older than `within`.
        """
        bound = {"ids": list(ids), "within": within.total_seconds()}
        found: dict[str, ReportedLoad] = {}
        for each, worker, attempts, rate in await self._session.execute(_REPORTED, bound):
            reported = found.setdefault(each, ReportedLoad())
            if (totals := attempts_of(attempts)) is not None:
                reported.attempts[worker] = totals
            if rate is not None:
                reported.allowed = rate + (reported.allowed or 0.0)
        return found

    async def add_topics(self, names: Sequence[str], hour: datetime) -> Mapping[str, int]:
        """Begin the histories of these topics, but skip deleted topics; return the ids by topic."""
        rows = await self._session.execute(_ADD_TOPICS, {"names": list(names), "hour": hour})
        return {each.name: each.id for each in rows}

    async def add_subscriptions(self, ids: Sequence[str], hour: datetime) -> Mapping[str, int]:
        """Begin the histories of these subscriptions, but skip deleted ones; return the ids."""
        rows = await self._session.execute(_ADD_SUBSCRIPTIONS, {"names": list(ids), "hour": hour})
        return {each.name: each.id for each in rows}

    async def write(self, changed: Sequence[Recorded]) -> None:
        """Store the new counts. Append the new minute, the only one in `minutes`, to each row."""
        columns = {
            "ids": [each.id for each in changed],
            "hours": [each.hour for each in changed],
            "published": [each.published for each in changed],
            "delivered": [each.delivered for each in changed],
            "discarded": [each.discarded for each in changed],
            "filtered": [each.filtered for each in changed],
            "lags": [each.lag for each in changed],
            "workers": [each.workers for each in changed],
            "minutes": [each.minutes for each in changed],
        }
        if changed:
            await self._session.execute(_WRITE, columns)

    async def append(self, rows: Sequence[HistoryRow]) -> None:
        """Append the bytes to the stored rows. Create rows that are missing."""
        columns = {
            "starts": [each.start for each in rows],
            "sources": [each.source for each in rows],
            "steps": [STEP_MINUTES[each.step] for each in rows],
            "bodies": [each.body for each in rows],
        }
        if rows:
            await self._session.execute(_APPEND, columns)

    async def _found(
        self, condition: ColumnElement[bool], hour: datetime
    ) -> list[RecordedSubscription]:
        row = SubscriptionRow
        query = select(row.id, row.topic, *_COUNTS, _minutes_before(hour))
        joined = query.outerjoin(METRICS_RECORDED, _ROW.subscription_id == row.id)
        found = await self._session.execute(joined.where(condition))
        return [
            RecordedSubscription(each, topic, _recorded(rest, hour)) for each, topic, *rest in found
        ]


def _minutes_before(hour: datetime) -> ColumnElement[bytes]:
    """Return the SQL for the recorded minutes of a row: empty if they are of `hour` or later."""
    return case((_ROW.hour < hour, _ROW.minutes), else_=literal(b""))


def _recorded(row: Sequence[Any], hour: datetime) -> Recorded:
    number, known_hour, published, delivered, discarded, filtered, lag, workers, minutes = row
    if number is None:
        return Recorded(hour=hour)
    return Recorded(
        id=number,
        hour=known_hour,
        published=published,
        delivered=delivered,
        discarded=discarded,
        filtered=filtered,
        lag=lag,
        workers=workers,
        minutes=minutes,
    )
