"""Commits positions again that did not move for long, so that no log forgets them."""

import asyncio
from datetime import timedelta
from typing import Final

import structlog

from app.domain.errors import UnavailableError
from app.log.interface import MessageLog
from workers.assignment.supervisor import Supervisor
from workers.consumer.lines import Lines

# Kafka forgets the offsets of a group without members seven days (by default) after their last
# commit.
INTERVAL: Final = timedelta(hours=1)

_log = structlog.get_logger()


class Renewal:
    """Renews idle cursors, and the positions of those that rest in the partitions we own."""

    def __init__(self, log: MessageLog, supervisor: Supervisor, lines: Lines) -> None:
        self._log = log
        self._supervisor = supervisor
        self._lines = lines

    async def run(self) -> None:
        """Renew each hour until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL.total_seconds())
            try:
                await self.renew()
            except UnavailableError as exc:
                _log.warning("positions_not_renewed", error=exc.message)

    async def renew(self) -> None:
        """Renew them now; raises LogUnavailableError."""
        for _, cursor in self._lines.cursors():
            cursor.renew()
        registry, owned = self._supervisor.registry, self._supervisor.owned
        committed = await self._log.committed(registry.resting_groups(owned))
        # One that was resumed while we asked commits for itself, and may be further already.
        still = registry.resting_groups(self._supervisor.owned)
        await self._log.commit({group: committed[group] for group in committed if group in still})
