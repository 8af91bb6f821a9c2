"""Timers for reading partitions from near replicas (KIP-392).

The leader of a partition chooses the replica from which the partition is read. When the timer of
the partition ends, the leader chooses again.
"""

import asyncio
from collections.abc import Callable

from app.domain.message import Partition
from app.log.kafka.partition_leaders import AVOIDED_FOR_S, CHOSEN_FOR_S
from app.log.kafka.session import Followed


class ChoiceTimers:
    """Calls `choose_again` for a partition when its leader must choose a replica again."""

    def __init__(self, choose_again: Callable[[Followed], None]) -> None:
        """Create the timers, which call `choose_again`."""
        self._choose_again = choose_again
        self._timers: dict[Partition, asyncio.TimerHandle] = {}

    def chosen(self, followed: Followed) -> None:
        """Start the partition's timer, because its leader has just chosen a replica."""
        self._start(followed, CHOSEN_FOR_S)

    def avoided(self, followed: Followed) -> None:
        """Start the partition's timer, because its chosen replica failed.

        Until the timer ends, the partition is read from its leader.
        """
        self._start(followed, AVOIDED_FOR_S)

    def read(self, followed: Followed) -> None:
        """Start the partition's timer after a read, unless the timer is already running."""
        if followed.partition not in self._timers:
            self._start(followed, CHOSEN_FOR_S)

    def stop(self, partition: Partition) -> None:
        """Stop the partition's timer, if any."""
        if timer := self._timers.pop(partition, None):
            timer.cancel()

    def close(self) -> None:
        """Stop all timers."""
        for partition in list(self._timers):
            self.stop(partition)

    def _start(self, followed: Followed, seconds: float) -> None:
        self.stop(followed.partition)
        loop = asyncio.get_running_loop()
        self._timers[followed.partition] = loop.call_later(seconds, self._end, followed)

    def _end(self, followed: Followed) -> None:
        del self._timers[followed.partition]
        self._choose_again(followed)
