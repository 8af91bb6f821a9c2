"""Stores the health of subscriptions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import delete, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.monitoring import Severity
from app.domain.catalogue.subscription import State
from app.domain.health.indicators import Problem
from app.domain.health.subscription_health import SubscriptionHealth
from app.domain.paging import ALL_KEYS, KeyPage
from app.storage.json_values import from_json, to_json
from app.storage.runtime.leases import LeaseRepository
from app.storage.tables import Json, SubscriptionRow
from app.storage.tables import SubscriptionHealthRow as Row

_severity: Final = SubscriptionRow.settings["monitoring"]["severity"].astext

# The maximum number of rows in one statement.
ROWS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthQuery:
    """Selects subscriptions by health. A field that is None or empty matches all subscriptions."""

    owner_source: str | None = None
    owner_id: str | None = None
    severities: Collection[Severity] = ()
    names: Collection[str] = ()
    topics: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhealthy:
    """An unhealthy subscription, with its problems."""

    topic: str
    name: str
    severity: Severity
    problems: Sequence[Problem]


class SubscriptionHealthRepository:
    """The last known health of each subscription."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def write(self, health_by_id: Mapping[str, SubscriptionHealth]) -> None:
        """Replace the stored health of these subscriptions. The keys are subscription ids."""
        items = sorted(health_by_id.items())
        for at in range(0, len(items), ROWS_MAX):
            written = insert(Row).values([_values(*each) for each in items[at : at + ROWS_MAX]])
            replaced = {
                "unhealthy": written.excluded.unhealthy,
                "health": written.excluded.health,
            }
            await self._session.execute(
                written.on_conflict_do_update(index_elements=["subscription_id"], set_=replaced)
            )

    async def get(self, subscription_id: str) -> SubscriptionHealth | None:
        """Return the last known health of a subscription; None if it was never evaluated."""
        query = select(Row.health).where(Row.subscription_id == subscription_id)
        stored = await self._session.scalar(query)
        return None if stored is None else _health_of(stored)

    async def looked_at(
        self, subscription_id: str, lease: str, *, within: timedelta
    ) -> tuple[SubscriptionHealth, datetime] | None:
        """Return the health of a subscription, and when the holder of `lease` last evaluated it.

        None if the last evaluation is older than `within`.
        """
        at = await LeaseRepository(self._session).renewed_at(lease)
        subscription_health = await self.get(subscription_id)
        if at is None or subscription_health is None or datetime.now(UTC) - at > within:
            return None
        return subscription_health, at

    async def unhealthy(self, wanted: HealthQuery, page: KeyPage = ALL_KEYS) -> Sequence[Unhealthy]:
        """Return subscriptions with problems, ordered by topic and name, without suspended ones."""
        there = SubscriptionRow
        query = (
            # Read only the problems of the health, because there may be thousands of rows.
            select(there.topic, there.name, _severity, Row.health["problems"])
            .join(Row, Row.subscription_id == there.id)
            .where(Row.unhealthy, there.state != State.SUSPENDED.value)
            .order_by(there.topic, there.name)
        )
        for column, value in (
            (there.owner_source, wanted.owner_source),
            (there.owner_id, wanted.owner_id),
        ):
            query = query if value is None else query.where(column == value)
        for column, values in (
            (there.name, wanted.names),
            (there.topic, wanted.topics),
            (_severity, [each.value for each in wanted.severities]),
        ):
            query = query.where(column.in_(values)) if values else query
        if page.after is not None:
            query = query.where(tuple_(there.topic, there.name) > tuple_(*page.after))
        query = query.limit(page.limit)
        return [
            Unhealthy(
                topic=topic,
                name=name,
                severity=Severity(severity or Severity.NON_IMPORTANT),
                problems=[Problem(**from_json(Problem, each)) for each in stored],
            )
            for topic, name, severity, stored in await self._session.execute(query)
        ]

    async def prune(self) -> None:
        """Delete the health of deleted subscriptions."""
        existing = select(SubscriptionRow.id)
        await self._session.execute(delete(Row).where(Row.subscription_id.not_in(existing)))


def _values(subscription_id: str, subscription_health: SubscriptionHealth) -> dict[str, Any]:
    return {
        "subscription_id": subscription_id,
        "unhealthy": bool(subscription_health.problems),
        "health": to_json(subscription_health),
    }


def _health_of(stored: Json) -> SubscriptionHealth:
    return SubscriptionHealth(**from_json(SubscriptionHealth, stored))
