"""Suspends subscriptions that cannot go on, in the database, from where every worker learns it."""

import asyncio
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.catalogue.subscription import Subscription
from app.domain.errors import UnavailableError

RETRY_PAUSE: Final = timedelta(seconds=1)

_log = structlog.get_logger()


class SuspensionStore(Protocol):
    """Where the states of subscriptions are kept."""

    async def suspend(self, subscription: Subscription, reason: str) -> bool:
        """Suspend it unless it was changed since it was `subscription`; raises UnavailableError.

        Whether it did.
        """


class Suspender:
    """Suspends in the background; a database that is down is tried again until it answers.

    What is not written when the worker ends is found out again by the next one.
    """

    def __init__(self, store: SuspensionStore, tasks: asyncio.TaskGroup) -> None:
        self._store = store
        self._tasks = tasks

    def suspend(self, subscription: Subscription, reason: str) -> None:
        """See to it that it is suspended, as long as nobody else changes it meanwhile."""
        self._tasks.create_task(self._suspend(subscription, reason))

    async def _suspend(self, subscription: Subscription, reason: str) -> None:
        group = subscription.group
        while True:
            try:
                suspended = await self._store.suspend(subscription, reason)
            except UnavailableError as exc:
                _log.warning("suspension_not_stored", subscription=group, error=exc.message)
                await asyncio.sleep(RETRY_PAUSE.total_seconds())
                continue
            _log.warning(
                "subscription_suspended" if suspended else "suspension_overtaken",
                subscription=group,
                reason=reason,
            )
            return
