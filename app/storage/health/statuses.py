"""Stores the workers' reports: positions of cursors, and each worker's load by subscription."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from operator import attrgetter
from typing import Any, Final, TypeVar

import orjson
from sqlalchemy import ColumnElement, Row, Text, delete, func, literal, select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.metrics.attempts import AttemptTotals
from app.domain.status import (
    AttemptCounts,
    CursorStatus,
    FailedAttempt,
    Output,
    SubscriptionLoad,
)
from app.storage.json_values import from_json, to_json
from app.storage.slices import made_of
from app.storage.tables import CursorRow, SubscriptionLoadRow, SubscriptionRow, WorkerRow
from app.storage.texts import storable

# The maximum number of rows in one statement. The rows are passed as one JSON text, because the
# database parses JSON faster than Python prepares many values.
ROWS_MAX: Final = 5_000

_OUTPUT: Final = "output"
_ATTEMPTS: Final = "attempts"
_FAILING: Final = "failing"
_COUNTS: Final = tuple(field.name for field in fields(AttemptCounts))
_values_of: Final = attrgetter(*_COUNTS)

# The counts of a report without `failing`, which is long. Only `StatusRepository.failing` needs it.
_SHORT_COUNTS: Final = SubscriptionLoadRow.counts.op("-", return_type=JSONB())(
    literal(_FAILING, Text)
)
# The columns that `load_of` needs.
LOAD_COLUMNS: Final[tuple[Any, ...]] = (
    SubscriptionLoadRow.subscription_id,
    SubscriptionLoadRow.worker_id,
    SubscriptionLoadRow.window,
    SubscriptionLoadRow.in_flight,
    SubscriptionLoadRow.waiting_retries,
    _SHORT_COUNTS.label("counts"),
)

T = TypeVar("T")

# Writes reports of cursors. The join drops reports of deleted subscriptions. Counts are never made
# smaller, because the old owner of a partition may report after the new owner.
_WRITE_CURSORS: Final = text("""
INSERT INTO cursors AS known
       (subscription_id, partition, topic, worker_id, "offset", "end", delivered, discarded, volume,
        filtered, position)
SELECT report.*
  FROM json_to_recordset(CAST(:rows AS json)) AS report (
         subscription_id text, partition int, topic text, worker_id text, "offset" bigint,
         "end" bigint, delivered bigint, discarded bigint, volume bigint, filtered bigint,
         position bigint)
  JOIN subscriptions ON subscriptions.id = report.subscription_id
ON CONFLICT (subscription_id, partition) DO UPDATE SET
  topic = excluded.topic, worker_id = excluded.worker_id, "offset" = excluded."offset",
  "end" = excluded."end",
  delivered = greatest(known.delivered, excluded.delivered),
  discarded = greatest(known.discarded, excluded.discarded),
  volume = greatest(known.volume, excluded.volume),
  filtered = greatest(known.filtered, excluded.filtered),
  position = excluded.position,
  seen_at = clock_timestamp()
""")

_WRITE_LOADS: Final = text("""
INSERT INTO subscription_loads
       (subscription_id, worker_id, "window", in_flight, waiting_retries, counts)
SELECT report.subscription_id, report.worker_id, make_interval(secs => report.window_s),
       report.in_flight, report.waiting_retries, report.counts
  FROM json_to_recordset(CAST(:rows AS json)) AS report (
         subscription_id text, worker_id text, window_s float8, in_flight int,
         waiting_retries int, counts jsonb)
  JOIN subscriptions ON subscriptions.id = report.subscription_id
ON CONFLICT (subscription_id, worker_id) DO UPDATE SET
  "window" = excluded."window", in_flight = excluded.in_flight,
  waiting_retries = excluded.waiting_retries, counts = excluded.counts, seen_at = clock_timestamp()
""")


class StatusRepository:
    """The last report of each cursor, and of each worker's load by subscription."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def write(
        self, cursors: Sequence[CursorStatus], loads: Sequence[SubscriptionLoad]
    ) -> None:
        """Replace the stored reports by these reports. Ignore reports of deleted subscriptions.

        Lifetime counts never decrease. If there are several reports of one cursor or load, the last
        report is stored.
        """
        # Write the rows in the order of their keys, so that the writes of two workers cannot
        # deadlock.
        cursor_by_key = {(cursor.subscription_id, cursor.partition): cursor for cursor in cursors}
        for rows in _in_chunks(sorted(cursor_by_key.items(), key=lambda item: item[0])):
            values = await made_of(rows, lambda row: orjson.dumps(_cursor_values(row[1])))
            await self._session.execute(_WRITE_CURSORS, {"rows": _listed(values)})
        load_by_key = {(load.subscription_id, load.worker_id): load for load in loads}
        for loads_chunk in _in_chunks(sorted(load_by_key.items(), key=lambda item: item[0])):
            values = await made_of(loads_chunk, lambda load: orjson.dumps(_load_values(load[1])))
            await self._session.execute(_WRITE_LOADS, {"rows": _listed(values)})

    async def move(self, subscription_id: str, topic: str, offsets: Sequence[int]) -> None:
        """Store the next offset of each partition of a subscription that no worker reads now.

        The counts stay. The index in `offsets` is the partition.
        """
        known = {each.partition: each for each in await self.cursors(subscription_id)}
        moved = [
            known.get(partition, _unreported(subscription_id, topic, partition))
            for partition in range(len(offsets))
        ]
        await self.write(
            [
                replace(each, worker_id="", offset=offset, end=max(each.end, offset), position=None)
                for each, offset in zip(moved, offsets, strict=True)
            ],
            [],
        )

    async def cursors(self, subscription_id: str) -> list[CursorStatus]:
        """Return the last report of each cursor of the subscription, ordered by partition."""
        query = select(CursorRow).where(CursorRow.subscription_id == subscription_id)
        rows = await self._session.scalars(query.order_by(CursorRow.partition))
        return [_cursor_of(row) for row in rows]

    async def loads(self, subscription_id: str, within: timedelta) -> list[SubscriptionLoad]:
        """Return the workers' reports of the subscription that are not older than `within`."""
        query = select(*LOAD_COLUMNS).where(*_reported(subscription_id, within))
        rows = await self._session.execute(query.order_by(SubscriptionLoadRow.worker_id))
        return [load_of(row) for row in rows]

    async def failing(self, subscription_id: str, within: timedelta) -> list[FailedAttempt]:
        """Return the messages that failed last and are still retried, the newest failure first.

        They come from the workers' reports that are not older than `within`.
        """
        query = select(SubscriptionLoadRow.counts[_FAILING])
        reports = await self._session.scalars(query.where(*_reported(subscription_id, within)))
        failing = (
            FailedAttempt(**from_json(FailedAttempt, each))
            for report in reports
            for each in report or ()
        )
        return sorted(failing, key=lambda each: each.at, reverse=True)

    async def loads_of_topic(self, topic: str, within: timedelta) -> list[SubscriptionLoad]:
        """Return the workers' reports of the topic's subscriptions, none older than `within`."""
        query = select(*LOAD_COLUMNS).join(
            SubscriptionRow, SubscriptionRow.id == SubscriptionLoadRow.subscription_id
        )
        rows = await self._session.execute(
            query.where(
                SubscriptionRow.topic == topic,
                SubscriptionLoadRow.seen_at > func.clock_timestamp() - within,
            )
        )
        return [load_of(row) for row in rows]

    async def prune(self, within: timedelta) -> None:
        """Delete workers, and reports about their work, if the last report is older than `within`.

        Cursors of deleted subscriptions are deleted too. Other cursors are kept even if they are
        old, because they are a copy of the positions, which the log may drop.
        """
        oldest = func.clock_timestamp() - within
        for reported in (SubscriptionLoadRow, WorkerRow):
            await self._session.execute(delete(reported).where(reported.seen_at < oldest))
        existing = select(SubscriptionRow.id)
        await self._session.execute(
            delete(CursorRow).where(CursorRow.subscription_id.not_in(existing))
        )


def _reported(subscription_id: str, within: timedelta) -> Sequence[ColumnElement[bool]]:
    return (
        SubscriptionLoadRow.subscription_id == subscription_id,
        SubscriptionLoadRow.seen_at > func.clock_timestamp() - within,
    )


def _listed(texts: Sequence[bytes]) -> str:
    """Return one JSON list of several texts.

    The texts are joined in steps, because a single step would block the event loop for long.
    """
    return f"[{b','.join(texts).decode()}]"


def _in_chunks(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    return (rows[start : start + ROWS_MAX] for start in range(0, len(rows), ROWS_MAX))


def _cursor_values(cursor: CursorStatus) -> dict[str, Any]:
    return {
        "subscription_id": cursor.subscription_id,
        "partition": cursor.partition,
        "topic": cursor.topic,
        "worker_id": cursor.worker_id,
        "offset": cursor.offset,
        "end": cursor.end,
        "delivered": cursor.delivered,
        "discarded": cursor.discarded,
        "volume": cursor.volume,
        "filtered": cursor.filtered,
        "position": cursor.position,
    }


def _cursor_of(row: CursorRow) -> CursorStatus:
    return CursorStatus(
        subscription_id=row.subscription_id,
        topic=row.topic,
        partition=row.partition,
        worker_id=row.worker_id,
        offset=row.offset,
        end=row.end,
        delivered=row.delivered,
        discarded=row.discarded,
        volume=row.volume,
        filtered=row.filtered,
        position=row.position,
    )


def _unreported(subscription_id: str, topic: str, partition: int) -> CursorStatus:
    return CursorStatus(
        subscription_id=subscription_id,
        topic=topic,
        partition=partition,
        worker_id="",
        offset=0,
        end=0,
        delivered=0,
        discarded=0,
        volume=0,
    )


def _load_values(load: SubscriptionLoad) -> dict[str, Any]:
    return {
        "subscription_id": load.subscription_id,
        "worker_id": load.worker_id,
        "window_s": load.window.total_seconds(),
        "in_flight": load.in_flight,
        "waiting_retries": load.waiting_retries,
        # Put all values that are only displayed into one JSON object, so that a new value needs no
        # column.
        "counts": {
            **_counted(load.counts),
            _OUTPUT: to_json(load.output),
            _ATTEMPTS: _attempts_json(load.attempts),
            **_failing_json(load.failing),
        },
    }


def _counted(counts: AttemptCounts) -> dict[str, int]:
    """Return the counts as JSON, faster than `to_json` does.

    This runs hundreds of times per second.
    """
    return dict(zip(_COUNTS, _values_of(counts), strict=True))


def _attempts_json(attempts: AttemptTotals | None) -> list[int] | None:
    return None if attempts is None else [attempts.since_ms, *attempts.numbers]


def _failing_json(failing: Sequence[FailedAttempt]) -> dict[str, Any]:
    # Most subscriptions have no such messages, so there is nothing to write for them.
    return {_FAILING: [to_json(_storable(each)) for each in failing]} if failing else {}


def _storable(failed: FailedAttempt) -> FailedAttempt:
    # Reasons may quote the responses of subscribers, and ids may come from foreign producers.
    return replace(
        failed,
        message_id=storable(failed.message_id),
        reason=storable(failed.reason),
        answer=storable(failed.answer),
    )


def attempts_of(stored: Sequence[int] | None) -> AttemptTotals | None:
    """Return the reported attempts. None for reports of earlier versions."""
    return None if stored is None else AttemptTotals(stored[0], tuple(stored[1:]))


def load_of(row: Row[Any]) -> SubscriptionLoad:
    """Return the report in a row of LOAD_COLUMNS."""
    return SubscriptionLoad(
        subscription_id=row.subscription_id,
        worker_id=row.worker_id,
        window=row.window,
        in_flight=row.in_flight,
        waiting_retries=row.waiting_retries,
        counts=AttemptCounts(**from_json(AttemptCounts, row.counts)),
        output=Output(**from_json(Output, row.counts.get(_OUTPUT, {}))),
        attempts=attempts_of(row.counts.get(_ATTEMPTS)),
    )
