"""Stores results of analyses."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from app.domain.insight.analytics import (
    Dimension,
    DistinguishingField,
    FailureCluster,
    FailurePattern,
    UndeliveredCount,
)
from app.domain.job import Claim, JobScope
from app.storage.tables import AnalyticsFailureRow, AnalyticsUndeliveredRow

_HOUR: Final = timedelta(hours=1)
_DIMENSIONS: Final[Mapping[Dimension, InstrumentedAttribute[Any]]] = {
    Dimension.TOPIC: AnalyticsUndeliveredRow.topic,
    Dimension.SUBSCRIPTION: AnalyticsUndeliveredRow.subscription,
    Dimension.REASON: AnalyticsUndeliveredRow.reason,
    Dimension.STATUS: AnalyticsUndeliveredRow.status,
    Dimension.HOUR: AnalyticsUndeliveredRow.hour,
}


class AnalyticsRepository:
    """The results of finished jobs. Only the rows of the claim that finished the job are read."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def undelivered(
        self, claim: Claim, scope: JobScope, *, by: Sequence[Dimension], limit: int
    ) -> Sequence[UndeliveredCount]:
        """Return the number of discards by the dimensions in `by`, the largest number first.

        The discards are counted by hour. Each hour that overlaps the time of `scope` is included as
        a whole.
        """
        row = AnalyticsUndeliveredRow
        keys = [_DIMENSIONS[dimension] for dimension in by]
        messages = func.sum(row.messages).label("messages")
        query = (
            select(*keys, messages, func.sum(row.attempts), func.sum(row.volume))
            .where(row.job_id == claim.job_id, row.attempt == claim.attempt)
            .where(row.hour > scope.start - _HOUR, row.hour < scope.end, *_within(scope))
            .group_by(*keys)
            .order_by(messages.desc(), *keys)
            .limit(limit)
        )
        return [_count_of(by, tuple(found)) for found in await self._session.execute(query)]

    async def failures(
        self, claim: Claim, *, topic: str | None, limit: int
    ) -> Sequence[FailureCluster]:
        """Return groups of similar failures of one topic or all topics, the largest first."""
        row = AnalyticsFailureRow
        query = select(row).where(row.job_id == claim.job_id, row.attempt == claim.attempt)
        if topic is not None:
            query = query.where(row.topic == topic)
        order = (row.messages.desc(), row.topic, row.status, row.error, row.shape)
        rows = await self._session.scalars(query.order_by(*order).limit(limit))
        return [_cluster_of(each) for each in rows]

    async def drop_overtaken(self, claim: Claim) -> None:
        """Delete the results that earlier claims of the job have stored."""
        for row in (AnalyticsUndeliveredRow, AnalyticsFailureRow):
            overtaken = (row.job_id == claim.job_id, row.attempt < claim.attempt)
            await self._session.execute(delete(row).where(*overtaken))


def _within(scope: JobScope) -> list[ColumnElement[bool]]:
    wanted: list[ColumnElement[bool]] = []
    if scope.topic is not None:
        wanted.append(AnalyticsUndeliveredRow.topic == scope.topic)
    if scope.subscription is not None:
        wanted.append(AnalyticsUndeliveredRow.subscription == scope.subscription)
    return wanted


def _count_of(by: Sequence[Dimension], found: Sequence[Any]) -> UndeliveredCount:
    *values, messages, attempts, volume = found
    return UndeliveredCount(
        **{dimension.value: value for dimension, value in zip(by, values, strict=True)},
        messages=int(messages),
        attempts=int(attempts),
        volume=int(volume),
    )


def _cluster_of(row: AnalyticsFailureRow) -> FailureCluster:
    return FailureCluster(
        topic=row.topic,
        status=row.status,
        error=row.error,
        shape=row.shape,
        pattern=FailurePattern(row.pattern),
        messages=row.messages,
        subscriptions=row.subscriptions,
        shapes=row.shapes,
        first_at=row.first_at,
        last_at=row.last_at,
        example_id=row.example_id,
        example_subscription=row.example_subscription,
        example_reason=row.example_reason,
        fields=tuple(_field_of(each) for each in row.fields),
    )


def _field_of(stored: Mapping[str, Any]) -> DistinguishingField:
    name, has_value, value = stored["feature"].partition("=")
    return DistinguishingField(
        field=name,
        present=stored["present"],
        value=value if has_value else None,
        support=stored["support"],
        passing=stored["among"],
        lift=stored["lift"],
    )
