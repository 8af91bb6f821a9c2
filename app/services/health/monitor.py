"""Monitors the health of all subscriptions, in one process at a time."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

import structlog

from app.config import Settings
from app.domain.catalogue.subscription import Subscription
from app.domain.errors import StorageUnavailableError
from app.domain.health.alerts import AlertBook, AlertChanges, Case, Limits, Reading, readings
from app.domain.health.indicators import Thresholds
from app.domain.health.subscription_health import SubscriptionHealth
from app.log.interface import MessageLog
from app.services.health.announcements import Announcer
from app.services.health.cluster_state import Register
from app.services.health.collector import HealthCollector, KnownState
from app.services.periodic import repeat
from app.storage.database import Database
from app.storage.health.alerts import AlertRepository
from app.storage.health.subscription_health import SubscriptionHealthRepository
from app.storage.runtime.leases import LeaseRepository

_log = structlog.get_logger(__name__)

Readings = Sequence[tuple[Subscription, Sequence[Reading]]]

LEASE: Final = "health"
# The number of rounds that the monitor of a process can miss before its lease ends.
LOOKS_MISSED: Final = 3
LEASE_MIN: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthMonitorSettings:
    """How often the monitor runs, and the limits above which a subscription has a problem."""

    every: timedelta
    thresholds: Thresholds = field(default_factory=Thresholds)
    limits: Limits = field(default_factory=Limits)

    @property
    def lease(self) -> timedelta:
        """How long the lease is valid after the last round."""
        return max(LEASE_MIN, LOOKS_MISSED * self.every)


def monitor_settings(settings: Settings) -> HealthMonitorSettings:
    """Return the settings of the monitor, from the settings of the service."""
    return HealthMonitorSettings(
        every=timedelta(seconds=settings.health_interval),
        thresholds=Thresholds(
            lag=timedelta(seconds=settings.health_lag),
            unreachable=settings.health_unreachable,
            timing_out=settings.health_timing_out,
            malfunctioning=settings.health_malfunctioning,
            malformed=settings.health_malformed,
            rate_min=settings.health_rate_min,
        ),
        limits=Limits(
            loss=timedelta(hours=settings.alert_loss_hours),
            undelivered=settings.alert_undelivered,
            expiry=timedelta(days=settings.alert_expiry_days),
        ),
    )


class HealthMonitor:
    """The health monitor of one process.

    The monitor works while its process holds the lease. Otherwise it regularly tries to take the
    lease. The results and alerts are written in the transaction that renews the lease. So if two
    processes believe that they hold the lease, only one of them can write.
    """

    def __init__(
        self,
        database: Database,
        log: MessageLog,
        announcer: Announcer,
        *,
        settings: HealthMonitorSettings,
    ) -> None:
        self._database = database
        self._log = log
        self._announcer = announcer
        self._settings = settings
        self._holder = uuid4().hex
        self._is_ours = False
        self._forget()

    async def run(self) -> None:
        """Check the health of all subscriptions again and again, until cancelled."""
        try:
            await repeat(self.look, every=self._settings.every, name="look_at_health")
        finally:
            if self._is_ours:
                with suppress(StorageUnavailableError):
                    await self.resign()

    async def look(self) -> None:
        """Check the health of all subscriptions once, if this process holds the lease.

        Raises:
            UnavailableError: The log or the database cannot be reached.
        """
        async with self._database.transaction() as session:
            self._is_ours = await self._take(LeaseRepository(session))
        if not self._is_ours:
            # Forget all snapshots, because another process holds the lease, and checks the health
            # from now on.
            self._forget()
            return
        known = await self._register.learn(self._database)
        health_by_id = await self._collector.look(known)
        # Find the observed problems on a thread, because there may be thousands of subscriptions,
        # and the event loop has other work.
        read = await asyncio.to_thread(_all_readings, known, health_by_id, self._settings.limits)
        if await self._write(health_by_id, read, now=datetime.fromtimestamp(known.now, UTC)):
            await self._announcer.announce()

    async def resign(self) -> None:
        """Release the lease, so that another process can continue immediately.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        async with self._database.transaction() as session:
            await LeaseRepository(session).give_up(LEASE, self._holder)

    def _forget(self) -> None:
        self._register = Register()
        self._collector = HealthCollector(self._log, self._settings.thresholds)
        self._book = AlertBook(lambda: uuid4().hex)
        self._written: Mapping[str, SubscriptionHealth] = {}

    async def _take(self, lease: LeaseRepository) -> bool:
        return await lease.take(LEASE, self._holder, self._settings.lease)

    async def _write(
        self, health_by_id: Mapping[str, SubscriptionHealth], read: Readings, *, now: datetime
    ) -> bool:
        """Write the results and alerts. Return False if another process holds the lease now."""
        changed = {each: it for each, it in health_by_id.items() if self._written.get(each) != it}
        async with self._database.transaction() as session:
            if not await self._take(LeaseRepository(session)):
                return False
            await SubscriptionHealthRepository(session).write(changed)
            alerts = AlertRepository(session)
            changes = self._book.changes(await alerts.active(), read, now)
            await alerts.clear(changes.cleared)
            await alerts.raise_(changes.raised)
        self._written = health_by_id
        _log_changes(changes)
        return True


def _all_readings(
    known: KnownState, health_by_id: Mapping[str, SubscriptionHealth], limits: Limits
) -> Readings:
    """Return each subscription with its observed problems, from which alerts are made."""
    now = datetime.fromtimestamp(known.now, UTC)
    return [
        (each, list(readings(_case(each, health_by_id[each.id], known), limits, now)))
        for each in known.subscriptions.values()
        if each.id in health_by_id
    ]


def _case(
    subscription: Subscription, subscription_health: SubscriptionHealth, known: KnownState
) -> Case:
    loads = known.loads.get(subscription.id, ())
    short = known.short.get(subscription.id)
    return Case(
        subscription=subscription, subscription_health=subscription_health, loads=loads, short=short
    )


def _log_changes(changes: AlertChanges) -> None:
    for alert in changes.raised:
        _log.warning(
            "alert_raised",
            kind=alert.kind,
            topic=alert.topic,
            subscription=alert.subscription,
            description=alert.description,
        )
    for alert in changes.cleared:
        _log.info(
            "alert_cleared", kind=alert.kind, topic=alert.topic, subscription=alert.subscription
        )
