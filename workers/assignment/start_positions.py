"""Finds the position from which a cursor starts.

It is the position of the commit in the log, of the copy of a commit in the database, or the
position where the subscription began.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from itertools import islice
from typing import Final, NamedTuple, Protocol

import structlog

from app.domain.catalogue.seek import sought
from app.domain.catalogue.subscription import Subscription
from app.domain.commit import Progress, parse_progress
from app.domain.errors import UnavailableError
from app.domain.message import Partition
from app.domain.status import CursorStatus
from app.log.interface import Committed, MessageLog
from workers.assignment.retractions import Unsettled, settle

RETRY_PAUSE: Final = timedelta(milliseconds=500)
# The number of consumer groups whose commits are read by one call. A failed call is repeated only
# for its own groups.
GROUPS_PER_CALL: Final = 500

_log = structlog.get_logger()

Wanted = tuple[Subscription, Partition]


class StartPositions(NamedTuple):
    """The start positions of cursors that have a commit in the log.

    Attributes:
        settled: The positions of the cursors that can start immediately.
        unsettled: The other cursors. Their uncommitted discards must be retracted before they
            start.
    """

    settled: Mapping[Wanted, Progress]
    unsettled: Mapping[Wanted, Unsettled]


class CursorCopies(Protocol):
    """The copies of commits in the database."""

    async def cursors(self, subscription_id: str) -> Collection[CursorStatus] | None:
        """Return the cursors as last reported. Return None if the subscription does not exist."""


class StartFinder:
    """Finds start positions. Waits while the log is down, or while a needed database is down."""

    def __init__(self, log: MessageLog, copies: CursorCopies) -> None:
        self._log = log
        self._copies = copies

    async def committed(self, wanted: Collection[Wanted]) -> StartPositions:
        """Return the positions of cursors with a commit of the same incarnation."""
        committed = await self._committed(wanted)
        settled: dict[Wanted, Progress] = {}
        unsettled: dict[Wanted, Unsettled] = {}
        for subscription, partition in wanted:
            there = committed.get(subscription.group, {}).get(partition)
            if there is None:
                continue
            progress = parse_progress(subscription.id, there.offset, there.metadata)
            if progress is None:
                continue
            start = sought(progress, subscription.seek, partition=partition.index)
            if progress.producer_epoch:
                unsettled[subscription, partition] = Unsettled(partition, progress, start)
            else:
                settled[subscription, partition] = start
        return StartPositions(settled, unsettled)

    async def settle(self, unsettled: Collection[Unsettled]) -> None:
        """Wait until the uncommitted discards of these cursors are retracted."""
        await settle(self._log, unsettled)

    async def copied(
        self, subscription: Subscription, partitions: Collection[Partition]
    ) -> dict[Wanted, Progress] | None:
        """Return the positions of these cursors from the database.

        Return None if the subscription is deleted, because nothing must start then. The log may
        have the commits of a later subscription with the same name, and the copies in the database
        may be older than what was finished.

        For a cursor without a position in the database, return the position where the subscription
        began when it was created. So no cursor starts at the end of the topic and skips messages.
        """
        found = await self._copied(subscription.id)
        if found is None:
            return None
        copies = {status.partition: status for status in found}
        return {
            (subscription, partition): _copied_progress(
                subscription, partition, copies.get(partition.index)
            )
            for partition in partitions
        }

    async def _committed(
        self, wanted: Iterable[Wanted]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        groups: dict[str, list[Partition]] = {}
        for subscription, partition in wanted:
            groups.setdefault(subscription.group, []).append(partition)
        found: dict[str, Mapping[Partition, Committed]] = {}
        left = iter(groups.items())
        while some := dict(islice(left, GROUPS_PER_CALL)):
            found.update(await self._fetched(some))
        return found

    async def _fetched(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        while True:
            try:
                return await self._log.committed(groups)
            except UnavailableError as exc:
                _log.warning("committed_offsets_unavailable", error=exc.message)
                await asyncio.sleep(RETRY_PAUSE.total_seconds())

    async def _copied(self, subscription_id: str) -> Collection[CursorStatus] | None:
        while True:
            try:
                return await self._copies.cursors(subscription_id)
            except UnavailableError as exc:
                _log.warning("cursor_copies_unavailable", error=exc.message)
                await asyncio.sleep(RETRY_PAUSE.total_seconds())


def _copied_progress(
    subscription: Subscription, partition: Partition, copy: CursorStatus | None
) -> Progress:
    if copy is None:
        progress = Progress(
            subscription_id=subscription.id, offset=subscription.start.get(partition.index, 0)
        )
    else:
        # The copied position may be from before or after a seek, and does not say which. If it may
        # be from before the subscription's last seek, start where this seek leads. It is better to
        # send messages again than to lose some.
        progress = Progress(
            subscription_id=subscription.id,
            offset=copy.offset,
            delivered=copy.delivered,
            discarded=copy.discarded,
            filtered=copy.filtered,
            volume=copy.volume,
        )
    return sought(progress, subscription.seek, partition=partition.index)
