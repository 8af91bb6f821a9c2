"""Commits positions again that have not changed for long. Otherwise the log would drop them."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import timedelta
from itertools import islice
from typing import Final

import structlog

from app.domain.errors import LogUnavailableError, UnavailableError
from app.domain.message import Partition
from app.log.interface import MessageLog
from workers.assignment.supervisor import Supervisor
from workers.consumer.subscription_consumers import SubscriptionConsumers

# How often positions are committed again. If a consumer group has no members, Kafka drops its
# offsets seven days (by default) after their last commit.
INTERVAL: Final = timedelta(hours=1)
# The maximum number of consumer groups in one commit. A log can store the positions of some
# hundreds of groups within the time limit of a commit.
GROUPS_AT_ONCE: Final = 200

_log = structlog.get_logger()


class Renewal:
    """Commits unchanged positions of idle cursors and of suspended subscriptions again.

    Only partitions that this worker owns are included.
    """

    def __init__(
        self, log: MessageLog, supervisor: Supervisor, consumers: SubscriptionConsumers
    ) -> None:
        self._log = log
        self._supervisor = supervisor
        self._consumers = consumers

    async def run(self) -> None:
        """Commit the positions again every hour, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL.total_seconds())
            try:
                await self.renew()
            except UnavailableError as exc:
                _log.warning("positions_not_renewed", error=exc.message)

    async def renew(self) -> None:
        """Commit the positions again now.

        Raises:
            LogUnavailableError: The log is down, or refused some positions.
        """
        for _, cursor in self._consumers.cursors():
            cursor.renew()
        failed: dict[tuple[str, Partition], str] = {}
        left = iter(self._resting().items())
        while some := dict(islice(left, GROUPS_AT_ONCE)):
            failed |= await self._renewed(some)
        if failed:
            message = f"{len(failed)} positions: {next(iter(failed.values()))}"
            raise LogUnavailableError(message)

    async def _renewed(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[tuple[str, Partition], str]:
        committed = await self._log.committed(groups)
        # Leave out subscriptions that were resumed meanwhile, and partitions that another worker
        # owns now. The log may have newer positions for them.
        resting = self._resting()
        still = {
            group: {each: found[each] for each in found if each in resting.get(group, ())}
            for group, found in committed.items()
        }
        return await self._log.commit({group: each for group, each in still.items() if each})

    def _resting(self) -> Mapping[str, Collection[Partition]]:
        supervisor = self._supervisor
        return supervisor.registry.resting_groups(supervisor.owned, closing=supervisor.closing)
