"""The messages that a retransmission has appended, and that its subscription has not finished."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

import structlog

from app.domain.catalogue.subscription import Subscription
from app.domain.commit import Progress, parse_progress
from app.domain.message import Partition
from app.domain.replay.retransmission import Sent, unfinished
from app.domain.replay.sending_rate import Sending
from app.log.interface import MessageLog
from workers.retransmission.store import RetransmissionStore

# If no copy was finished in this time, check whether the log still has the copies.
LOST_AFTER: Final = timedelta(seconds=10)

_log = structlog.get_logger()


class UnfinishedCopies:
    """The copies of one retransmission that are appended and not finished, by their offsets."""

    def __init__(self, log: MessageLog, sending: Sending, now: float) -> None:
        self._log = log
        self._sending = sending
        # By partition, in order.
        self._offsets: dict[int, list[int]] = {}
        self._looked_at = now

    def __len__(self) -> int:
        """Return the number of copies."""
        return sum(map(len, self._offsets.values()))

    def add(self, sent: Iterable[Sent]) -> None:
        """Add copies that are appended and recorded."""
        for each in sent:
            insort(self._offsets.setdefault(each.partition, []), each.offset)

    async def remember(self, store: RetransmissionStore, subscription: Subscription) -> None:
        """Read the copies that an earlier worker appended.

        Raises:
            UnavailableError: The log or the database cannot be reached.
        """
        ends = await store.ends(self._sending)
        progress = await self._progress(subscription, ends)
        self._offsets = {}
        for partition in ends:
            known = progress.get(partition)
            first = 0 if known is None else known.offset
            offsets = await store.sent_from(self._sending, partition, first)
            self._offsets[partition] = unfinished(offsets, known)

    async def forget_finished(self, subscription: Subscription, now: float) -> None:
        """Forget the copies that the subscription has finished, or that the log has lost.

        Raises:
            UnavailableError: The log cannot be reached.
        """
        before = len(self)
        progress = await self._progress(subscription, self._offsets)
        self._keep(
            {
                partition: unfinished(offsets, progress.get(partition))
                for partition, offsets in self._offsets.items()
            }
        )
        if len(self) < before:
            self._looked_at = now
        elif before and now - self._looked_at >= LOST_AFTER.total_seconds():
            self._looked_at = now
            await self._forget_lost()

    async def _forget_lost(self) -> None:
        """Forget the copies whose offsets are at the log's end or beyond it.

        A topic with ack LEADER loses messages if a replica without them becomes the leader. Nobody
        can finish such copies, so waiting for them could take forever.
        """
        partitions = [Partition(self._sending.topic, index) for index in self._offsets]
        bounds = await self._log.bounds(partitions)
        ends = {partition.index: bounds[partition].end for partition in partitions}
        before = len(self)
        self._keep(
            {
                index: offsets[: bisect_left(offsets, ends[index])]
                for index, offsets in self._offsets.items()
            }
        )
        if lost := before - len(self):
            _log.warning(
                "retransmission_copies_lost", retransmission=self._sending.id, messages=lost
            )

    def _keep(self, offsets: Mapping[int, list[int]]) -> None:
        self._offsets = {partition: left for partition, left in offsets.items() if left}

    async def _progress(
        self, subscription: Subscription, indexes: Iterable[int]
    ) -> Mapping[int, Progress]:
        partitions = [Partition(self._sending.topic, index) for index in indexes]
        if not partitions:
            return {}
        found = await self._log.committed({subscription.group: partitions})
        return {
            partition.index: progress
            for partition, committed in found.get(subscription.group, {}).items()
            if (progress := parse_progress(subscription.id, committed.offset, committed.metadata))
        }
