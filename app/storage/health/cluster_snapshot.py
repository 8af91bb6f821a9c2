"""Reads the workers' last reports of all subscriptions."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.status import CursorStatus, SubscriptionLoad
from app.storage.health.statuses import LOAD_COLUMNS, load_of
from app.storage.tables import CursorRow, SubscriptionLoadRow, WorkerRow

_FIELDS: Final = tuple(each.name for each in fields(CursorStatus))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The workers' last reports.

    Attributes:
        now: The time of the snapshot, in seconds since the epoch.
        cursors: The position of each cursor, and the age of its report in seconds.
        loads: What each worker does for each subscription.
        workers: The ids of the running workers.
    """

    now: float
    cursors: Sequence[tuple[CursorStatus, float]]
    loads: Sequence[SubscriptionLoad]
    workers: frozenset[str]


class ClusterSnapshotRepository:
    """Reads many reports at once. The database's clock measures the age of the reports."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def reports(self, *, since: timedelta | None, within: timedelta) -> Reports:
        """Return the workers' last reports.

        Args:
            since: Cursors whose report is older are left out; None includes all cursors.
            within: Workers, and reports about their work, are left out if they are older than this.
        """
        epoch = func.extract("epoch", func.clock_timestamp())
        now = float((await self._session.scalars(select(epoch))).one())
        return Reports(
            now=now,
            cursors=await self._cursors(since),
            loads=await self._loads(within),
            workers=await self._workers(within),
        )

    async def _cursors(self, since: timedelta | None) -> list[tuple[CursorStatus, float]]:
        age = func.extract("epoch", func.clock_timestamp() - CursorRow.seen_at)
        query = select(*(getattr(CursorRow, name) for name in _FIELDS), age)
        if since is not None:
            query = query.where(CursorRow.seen_at > func.clock_timestamp() - since)
        rows = await self._session.execute(query)
        return [
            (CursorStatus(**dict(zip(_FIELDS, values, strict=True))), float(ago))
            for *values, ago in rows
        ]

    async def _loads(self, within: timedelta) -> list[SubscriptionLoad]:
        recent = SubscriptionLoadRow.seen_at > func.clock_timestamp() - within
        rows = await self._session.execute(select(*LOAD_COLUMNS).where(recent))
        return [load_of(row) for row in rows]

    async def _workers(self, within: timedelta) -> frozenset[str]:
        live = WorkerRow.seen_at > func.clock_timestamp() - within
        return frozenset(await self._session.scalars(select(WorkerRow.id).where(live)))
