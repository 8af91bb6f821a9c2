"""Stores the results of latency jobs: how long the delivery of messages took."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import Float, cast, delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.job import Claim
from app.domain.latency import Figure, LatencyPart, SubscriptionLatency
from app.storage.tables import ANALYTICS_LATENCY

_ROW: Final = ANALYTICS_LATENCY.c
_KNOWN: Final = _ROW.delivered + _ROW.discarded - _ROW.unknown
_ATTAINED: Final = cast(_ROW.within, Float) / func.nullif(_KNOWN, 0)
_WORST_FIRST: Final = (
    _ATTAINED.asc().nulls_last(),
    _ROW[f"{LatencyPart.TOTAL}_{Figure.P99}_us"].desc().nulls_last(),
    _ROW.topic,
    _ROW.subscription,
    _ROW.subscription_id,
)


class LatencyRepository:
    """The results of finished jobs. Only the rows of the claim that finished the job are read."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def found(
        self, claim: Claim, *, topic: str | None, subscription: str | None, limit: int
    ) -> Sequence[SubscriptionLatency]:
        """Return the results of the requested subscriptions, the worst first.

        The worst is the one with the lowest percentage of messages within the SLO (the promised
        delivery time). If percentages are equal, or there is no SLO, the highest 99th percentile
        comes first.
        """
        query = select(ANALYTICS_LATENCY).where(
            _ROW.job_id == claim.job_id, _ROW.attempt == claim.attempt
        )
        if topic is not None:
            query = query.where(_ROW.topic == topic)
        if subscription is not None:
            query = query.where(_ROW.subscription == subscription)
        rows = await self._session.execute(query.order_by(*_WORST_FIRST).limit(limit))
        return [_latency_of(dict(row)) for row in rows.mappings()]

    async def drop_overtaken(self, claim: Claim) -> None:
        """Delete the results that earlier claims of the job have stored."""
        overtaken = (_ROW.job_id == claim.job_id, _ROW.attempt < claim.attempt)
        await self._session.execute(delete(ANALYTICS_LATENCY).where(*overtaken))


def _latency_of(row: Mapping[str, Any]) -> SubscriptionLatency:
    named = ("topic", "subscription", "subscription_id", "delivered", "discarded", "unknown",
             "resent", "attempts", "within")  # fmt: skip
    # Check only one of the times, because a row has either all times or none.
    known = row[f"{LatencyPart.TOTAL}_{Figure.MAX}_us"] is not None
    times = {
        part: {figure: timedelta(microseconds=row[f"{part}_{figure}_us"]) for figure in Figure}
        for part in (LatencyPart if known else ())
    }
    return SubscriptionLatency(**{name: row[name] for name in named}, times=times)
