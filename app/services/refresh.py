"""Keeps data of this process up to date with the database: topics, API keys, applied changes."""

import asyncio
from datetime import timedelta
from time import monotonic
from typing import Final

import structlog

from app.domain.errors import StorageUnavailableError
from app.outages import Outage
from app.services.access.known_keys import KnownKeys
from app.services.applied_changes import AppliedChanges
from app.services.directory.topics import TopicDirectory
from app.storage.catalogue.changes import changes_since
from app.storage.database import Database
from app.storage.notices import ACCESS, APPLIED, CHANGES, Notices

_log = structlog.get_logger(__name__)

# How often this process reads changes without a notice. This is needed, because notices may be
# lost.
POLL_EVERY: Final = timedelta(seconds=5)
_AFTER_DEFECT_S: Final = 1.0


class Refresher:
    """Reads changes and API keys when notices arrive, and regularly.

    It also passes on notices that workers have applied a change.
    """

    def __init__(
        self,
        database: Database,
        directory: TopicDirectory,
        applied: AppliedChanges,
        *,
        keys: KnownKeys | None = None,
    ) -> None:
        self._keys = keys
        self._database = database
        self._directory = directory
        self._applied = applied
        self._poll_at = 0.0
        # A lock, so that changes are read and applied one after another. Otherwise a slow read
        # could restore a topic that a later read has removed.
        self._reading = asyncio.Lock()
        self._outage = Outage(_log, "topics_not_refreshed")

    async def run(self, notices: Notices) -> None:
        """Keep the data up to date until cancelled, even if the database is down for some time."""
        while True:
            try:
                await self._once(notices)
            except Exception:  # noqa: BLE001 - topics in memory still accept messages
                _log.exception("refresh_broke")
                await asyncio.sleep(_AFTER_DEFECT_S)

    async def refresh(self) -> None:
        """Read the changes of topics and subscriptions, and apply them to the directory.

        If the database does not respond, the directory stays unchanged.
        """
        self._poll_at = monotonic() + POLL_EVERY.total_seconds()
        try:
            async with self._reading:
                # Read the changes in several transactions. There are many changes at the start of
                # the process, when all topics and subscriptions are read.
                self._directory.apply(await changes_since(self._database, self._directory.last))
        except StorageUnavailableError as error:
            self._outage.failed(reason=error.message)
        else:
            self._outage.ended()

    async def _once(self, notices: Notices) -> None:
        left = timedelta(seconds=max(0.0, self._poll_at - monotonic()))
        channels = await notices.wait(left)
        if APPLIED in channels:
            self._applied.notice()
        is_time = monotonic() >= self._poll_at
        if self._keys and (ACCESS in channels or is_time):
            await self._keys.refresh()
        if CHANGES in channels or is_time:
            await self.refresh()
