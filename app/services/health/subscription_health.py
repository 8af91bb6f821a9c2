"""The health of subscriptions, as last evaluated."""

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

# Results of the health monitor that are older than this are not used.
FRESH: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHealth:
    """A subscription, its last evaluated health, and the time of this evaluation.

    If there is no recent evaluation, the health and the time are None.
    """

    subscription: Subscription
    subscription_health: SubscriptionHealth | None
    at: datetime | None

    @property
    def health(self) -> Health:
        """The health, as one of Hermes' values. A suspended subscription is healthy."""
        if self.subscription.state is State.SUSPENDED:
            return Health.HEALTHY
        if self.subscription_health is None:
            return Health.NO_DATA
        return Health.UNHEALTHY if self.subscription_health.problems else Health.HEALTHY

    @property
    def problems(self) -> Sequence[Problem]:
        """The problems of the subscription; none if it is suspended or has no recent result."""
        if self.subscription_health is None or self.health is not Health.UNHEALTHY:
            return ()
        return self.subscription_health.problems


class HealthService:
    """Reads the results of the health monitor; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def subscription(self, topic: str, name: str) -> RecordedHealth:
        """Return the health of a subscription.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        async with self._database.transaction() as session:
            found = await SubscriptionRepository(session).get(topic, name)
            repository = SubscriptionHealthRepository(session)
            seen = await repository.looked_at(found.id, LEASE, within=FRESH)
        subscription_health, at = seen or (None, None)
        return RecordedHealth(subscription=found, subscription_health=subscription_health, at=at)

    async def unhealthy(self, wanted: HealthQuery, page: KeyPage = ALL_KEYS) -> Sequence[Unhealthy]:
        """Return a page of the subscriptions with problems, ordered by topic and name.

        Suspended subscriptions are left out.
        """
        async with self._database.transaction() as session:
            return await SubscriptionHealthRepository(session).unhealthy(wanted, page)

    async def alerts(
        self, *, active: bool, limit: int, after: str | None = None
    ) -> Sequence[Alert]:
        """Return the newest alerts; only active alerts if `active` is true.

        With `after`, return only alerts older than the alert with that id.

        Raises:
            ValidationFailedError: No alert has the id `after`.
        """
        async with self._database.transaction() as session:
            return await AlertRepository(session).newest(limit, active=active, after=after)
