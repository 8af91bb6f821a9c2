"""Reads changes of topics and subscriptions from the database, and applies them in this worker.

`ChangeFollower.applied` is the last change that is in effect here. The heartbeat reports it.
"""

import asyncio
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.catalogue.changes import Changes
from app.domain.errors import UnavailableError
from workers.reading.known_changes import KnownChanges

# How often the worker reads changes without a notification, because a notification may be lost with
# its connection.
POLL_INTERVAL: Final = timedelta(seconds=5)
# The pause after an attempt that failed.
RETRY_PAUSE: Final = timedelta(seconds=1)

_log = structlog.get_logger()


class ChangeSource(Protocol):
    """The source from which changes are read."""

    async def since(self, number: int) -> Changes:
        """Return what changed after the change `number`.

        Raises:
            UnavailableError: The source cannot be read.
        """

    async def wait(self, at_most: timedelta) -> None:
        """Return when something may have changed, or after `at_most`."""


class Changeable(Protocol):
    """Applies changes of topics and subscriptions in this worker."""

    def apply(self, changes: Changes) -> None:
        """Apply the changes. When this returns, they are in effect."""


class ChangeFollower:
    """Applies changes in order. While the database is down, the last known state stays in force."""

    def __init__(
        self, source: ChangeSource, target: Changeable, *, known: KnownChanges | None = None
    ) -> None:
        """Create a follower. It tells `known` up to which time all changes are known."""
        self._source = source
        self._target = target
        self._known = known or KnownChanges()
        self.applied: int | None = None
        # A text for people that says why no changes were read yet. It is shown only until the first
        # changes are applied.
        self.waits_for = "what there is to deliver was not read yet"
        self.on_applied = asyncio.Event()

    async def run(self) -> None:
        """Follow changes until cancelled."""
        while True:
            queried_at = self._known.now()
            try:
                changes = await self._source.since(self.applied or 0)
            except UnavailableError as exc:
                _log.warning("changes_unavailable", error=exc.message)
                self.waits_for = exc.message
                await asyncio.sleep(RETRY_PAUSE.total_seconds())
                continue
            self._apply(changes)
            self._known.read(queried_at)
            await self._source.wait(POLL_INTERVAL)

    def _apply(self, changes: Changes) -> None:
        if changes.number == self.applied:
            return
        self._target.apply(changes)
        # Set `applied` only after the changes are in effect here, because other processes rely on
        # it.
        self.applied = changes.number
        self.on_applied.set()
