"""Reads stored histories, and deletes the histories of deleted subscriptions and topics."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.metrics.steps import Step
from app.storage.health.history_partitions import STEP_MINUTES
from app.storage.tables import METRICS_HISTORY, METRICS_RECORDED

# The maximum number of histories that one transaction deletes.
DROP_MAX: Final = 100

_HISTORY: Final = METRICS_HISTORY.c
_RECORDED: Final = METRICS_RECORDED.c


class StoredSteps(NamedTuple):
    """A row of a history: the metrics of several minutes or hours from `start` on.

    `body` has them in the form of `app.domain.metrics.packing`.
    """

    start: datetime
    body: bytes


class HistoryRepository:
    """The stored histories. A history does not have the minutes of the last hour yet."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def rows(
        self, source: int, step: Step, *, since: datetime, until: datetime
    ) -> Sequence[StoredSteps]:
        """Return the rows that start at `since` or later, and before `until`, in order.

        `source` is the id of the history. `step` says whether to return the rows with metrics by
        minute (MINUTE) or by hour (HOUR).
        """
        query = select(_HISTORY.start, _HISTORY.body).where(
            _HISTORY.step == STEP_MINUTES[step],
            _HISTORY.source == source,
            _HISTORY.start >= since,
            _HISTORY.start < until,
        )
        rows = await self._session.execute(query.order_by(_HISTORY.start))
        return [StoredSteps(start, body) for start, body in rows]

    async def drop_deleted(self) -> int:
        """Delete up to DROP_MAX histories of deleted topics and subscriptions; return how many."""
        deleted = select(_RECORDED.id).where(
            _RECORDED.topic.is_(None), _RECORDED.subscription_id.is_(None)
        )
        ids = list(await self._session.scalars(deleted.limit(DROP_MAX)))
        if ids:
            await self._session.execute(
                delete(METRICS_HISTORY).where(
                    _HISTORY.step.in_(STEP_MINUTES.values()), _HISTORY.source.in_(ids)
                )
            )
            await self._session.execute(delete(METRICS_RECORDED).where(_RECORDED.id.in_(ids)))
        return len(ids)
