"""Reads changes of topics and subscriptions from the database, and applies them in this worker.

`ChangeFollower.applied` is the last change that is in effect in this worker. The worker's heartbeat
reports it.
"""

import asyncio
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.catalogue.changes import NO_CHANGE, Changes, LastChange
from app.domain.errors import UnavailableError
from app.outages import Outage
from workers.reading.known_changes import KnownChanges

# How often the worker reads changes without a notification. A notification may be lost when its
# connection is lost.
POLL_INTERVAL: Final = timedelta(seconds=5)
# The pause before the changes are read again after an error.
RETRY_PAUSE: Final = timedelta(seconds=1)

_log = structlog.get_logger()


class ChangeSource(Protocol):
    """The source from which changes are read."""

    async def since(self, last: LastChange) -> Changes:
        """Return the changes after the change `last`; everything if it is of another server.

        Raises:
            UnavailableError: The source cannot be read.
        """

    async def wait(self, at_most: timedelta) -> None:
        """Wait until there may be new changes, but not longer than `at_most`."""


class Changeable(Protocol):
    """Applies changes of topics and subscriptions in this worker."""

    def apply(self, changes: Changes) -> None:
        """Apply the changes. They are in effect when this method returns."""


class ChangeFollower:
    """Applies changes in order. While the database is down, the last known state is kept."""

    def __init__(
        self, source: ChangeSource, target: Changeable, *, known: KnownChanges | None = None
    ) -> None:
        """Create a follower. It reports to `known` up to which time all changes were read."""
        self._source = source
        self._target = target
        self._known = known or KnownChanges()
        self.applied: LastChange | None = None
        # A text for people that says why no changes were read yet. It is shown only until the first
        # changes are applied.
        self.waits_for = "what there is to deliver was not read yet"
        self.on_applied = asyncio.Event()

    async def run(self) -> None:
        """Read and apply changes until cancelled."""
        outage = Outage(_log, "changes_unavailable")
        while True:
            queried_at = self._known.now()
            try:
                changes = await self._source.since(self.applied or NO_CHANGE)
            except UnavailableError as exc:
                outage.failed(error=exc.message)
                self.waits_for = exc.message
                await asyncio.sleep(RETRY_PAUSE.total_seconds())
                continue
            outage.ended()
            self._apply(changes)
            self._known.read(queried_at)
            await self._source.wait(POLL_INTERVAL)

    def _apply(self, changes: Changes) -> None:
        if changes.last == self.applied:
            return
        self._target.apply(changes)
        # Set `applied` only after the changes are in effect in this worker, because other processes
        # rely on this order.
        self.applied = changes.last
        self.on_applied.set()
