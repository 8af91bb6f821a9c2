"""Stores suspensions of subscriptions that cannot continue, so that every worker suspends them."""

import asyncio
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.catalogue.subscription import Subscription
from app.domain.errors import UnavailableError

RETRY_PAUSE: Final = timedelta(seconds=1)

_log = structlog.get_logger()


class SuspensionStore(Protocol):
    """The store in which subscriptions are suspended."""

    async def suspend(self, subscription: Subscription, reason: str) -> bool:
        """Suspend the subscription, unless it was changed or deleted since this version of it.

        Raises:
            UnavailableError: The database cannot be reached.

        Returns:
            Whether this call suspended the subscription.
        """


class Suspender:
    """Suspends subscriptions in the background, and repeats this until the database responds.

    If the worker ends before a suspension is stored, the next owner of the partitions finds the
    same reason again.
    """

    def __init__(self, store: SuspensionStore, tasks: asyncio.TaskGroup) -> None:
        self._store = store
        self._tasks = tasks

    def suspend(self, subscription: Subscription, reason: str) -> None:
        """Suspend the subscription soon. Do nothing if a user changes it before that."""
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
