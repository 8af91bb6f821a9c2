"""Stores workers and their heartbeats."""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Interval, bindparam, delete, func, select, text
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.subscription import State
from app.domain.paging import NamePage
from app.domain.status import OwnedPartitions, WorkerStatus
from app.storage.notices import APPLIED
from app.storage.tables import AppliedClockRow, CursorRow, SubscriptionRow, WorkerRow

# Writes a heartbeat of a worker. It returns the number of the applied change that is stored now and
# the one of the worker's previous heartbeat. It is plain SQL, because each worker runs it every
# second, and SQLAlchemy's own statements took three times as long.
_BEAT: Final = text("""
WITH before AS (SELECT applied_change FROM workers WHERE id = :id)
INSERT INTO workers (id, host, pid, applied_change, partitions, started_at, seen_at)
VALUES (
  :id, :host, :pid, CASE WHEN pg_postmaster_start_time() = :server THEN :applied_change ELSE 0 END,
  :partitions, :started_at, clock_timestamp()
)
ON CONFLICT (id) DO UPDATE SET
  host = excluded.host, pid = excluded.pid, applied_change = excluded.applied_change,
  partitions = excluded.partitions, started_at = excluded.started_at, seen_at = clock_timestamp()
RETURNING applied_change, (SELECT applied_change FROM before)
""")
_NOTE_APPLIED: Final = text("UPDATE applied_clock SET number = :applied WHERE number < :applied")
_NOTIFY_APPLIED: Final = select(func.pg_notify(APPLIED, ""))
_LIVE: Final = (
    select(WorkerRow)
    .where(WorkerRow.seen_at > func.clock_timestamp() - bindparam("within", type_=Interval))
    .order_by(WorkerRow.id)
)


class WorkerRepository:
    """The workers. The database's clock says when a worker was last seen."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def beat(self, status: WorkerStatus, *, server: datetime | None) -> None:
        """Store a heartbeat with the current time.

        If the worker has applied a new change, notify the processes that wait for this change.
        `server` is the start time of the database server that numbered the change. If another
        server answers now, the worker counts as having applied nothing: there, the number may
        belong to another change.
        """
        reported = {
            "id": status.id,
            "host": status.host,
            "pid": status.pid,
            "applied_change": status.applied_change,
            "partitions": status.partitions,
            "started_at": status.started_at,
            "server": server,
        }
        applied, before = (await self._session.execute(_BEAT, reported)).one()
        if before is None or applied > before:
            await self._session.execute(_NOTE_APPLIED, {"applied": applied})
            await self._session.execute(_NOTIFY_APPLIED)

    async def live(self, within: timedelta) -> list[WorkerStatus]:
        """Return the workers that were last seen at most `within` ago, ordered by id."""
        rows = await self._session.scalars(_LIVE, {"within": within})
        return [_status_of(row) for row in rows]

    async def owned(self, worker_id: str, page: NamePage) -> list[OwnedPartitions]:
        """Return the partitions that a worker delivers, in the order of topics.

        A worker delivers the partitions for which it reports cursors. Cursors of suspended
        subscriptions are left out. They still name this worker after their partition has got
        another owner.
        """
        partition = CursorRow.partition
        query = (
            select(
                CursorRow.topic, func.array_agg(aggregate_order_by(partition.distinct(), partition))
            )
            .join(SubscriptionRow, SubscriptionRow.id == CursorRow.subscription_id)
            .where(CursorRow.worker_id == worker_id, SubscriptionRow.state != State.SUSPENDED.value)
        )
        if page.after is not None:
            query = query.where(CursorRow.topic > page.after)
        query = query.group_by(CursorRow.topic).order_by(CursorRow.topic).limit(page.limit)
        rows = await self._session.execute(query)
        return [OwnedPartitions(topic=topic, partitions=found) for topic, found in rows]

    async def applied(self) -> int:
        """Return the number of the last change that any worker has applied.

        This worker may have ended meanwhile.
        """
        reported = select(func.max(WorkerRow.applied_change)).scalar_subquery()
        noted = select(AppliedClockRow.number).scalar_subquery()
        # Look also at the numbers in the rows of the workers, because a worker of an earlier
        # version updates only its row.
        return await self._session.scalar(select(func.greatest(noted, reported))) or 0

    async def remove(self, worker_id: str) -> None:
        """Delete a worker that has ended, if it exists."""
        await self._session.execute(delete(WorkerRow).where(WorkerRow.id == worker_id))


def _status_of(row: WorkerRow) -> WorkerStatus:
    return WorkerStatus(
        id=row.id,
        host=row.host,
        pid=row.pid,
        applied_change=row.applied_change,
        partitions=row.partitions,
        started_at=row.started_at,
        seen_at=row.seen_at,
    )
