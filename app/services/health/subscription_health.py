"""How subscriptions do, as the monitor saw them last."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.domain.catalogue.subscription import State, Subscription
from app.domain.health.alerts import Alert
from app.domain.health.indicators import Health, Problem
from app.domain.health.subscription_health import SubscriptionHealth
from app.domain.paging import ALL_KEYS, KeyPage
from app.services.health.monitor import LEASE
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.health.alerts import AlertRepository
from app.storage.health.subscription_health import (
    HealthQuery,
    SubscriptionHealthRepository,
    Unhealthy,
)

# What is older says nothing of now.
FRESH: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHealth:
    """A subscription, and how it did `at` that time; both None: nobody has looked lately."""

    subscription: Subscription
    subscription_health: SubscriptionHealth | None
    at: datetime | None

    @property
    def health(self) -> Health:
        """Hermes' word for it: one that is suspended is healthy."""
        if self.subscription.state is State.SUSPENDED:
            return Health.HEALTHY
        if self.subscription_health is None:
            return Health.NO_DATA
        return Health.UNHEALTHY if self.subscription_health.problems else Health.HEALTHY

    @property
    def problems(self) -> Sequence[Problem]:
        """What is wrong with it."""
        if self.subscription_health is None or self.health is not Health.UNHEALTHY:
            return ()
        return self.subscription_health.problems


class HealthService:
    """Looks up what the monitor has written; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def subscription(self, topic: str, name: str) -> RecordedHealth:
        """TopicNotFoundError, SubscriptionNotFoundError."""
        async with self._database.transaction() as session:
            found = await SubscriptionRepository(session).get(topic, name)
            repository = SubscriptionHealthRepository(session)
            seen = await repository.looked_at(found.id, LEASE, within=FRESH)
        subscription_health, at = seen or (None, None)
        return RecordedHealth(subscription=found, subscription_health=subscription_health, at=at)

    async def unhealthy(self, wanted: HealthQuery, page: KeyPage = ALL_KEYS) -> Sequence[Unhealthy]:
        """Subscriptions with problems, by topic and name; suspended ones are none."""
        async with self._database.transaction() as session:
            return await SubscriptionHealthRepository(session).unhealthy(wanted, page)

    async def alerts(
        self, *, active: bool, limit: int, after: str | None = None
    ) -> Sequence[Alert]:
        """The newest alerts, only those that are so now if `active`.

        `after`: those older than the one of that id; ValidationFailedError when there is none.
        """
        async with self._database.transaction() as session:
            return await AlertRepository(session).newest(limit, active=active, after=after)
