"""Timers of partitions that are read: what happens to a partition after some time."""

import asyncio
from collections.abc import Callable

from app.domain.message import Partition
from app.log.kafka.session import Followed


class PartitionTimers:
    """Calls `on_end` for a partition when its timer ends. Each partition has at most one timer."""

    def __init__(self, on_end: Callable[[Followed], None]) -> None:
        """Create the timers, which call `on_end`."""
        self._on_end = on_end
        self._timers: dict[Partition, asyncio.TimerHandle] = {}

    def start(self, followed: Followed, seconds: float) -> None:
        """Start the partition's timer. If it is running, it starts again."""
        self.stop(followed.partition)
        loop = asyncio.get_running_loop()
        self._timers[followed.partition] = loop.call_later(seconds, self._end, followed)

    def stop(self, partition: Partition) -> None:
        """Stop the partition's timer, if any."""
        if timer := self._timers.pop(partition, None):
            timer.cancel()

    def runs(self, partition: Partition) -> bool:
        """Whether the partition's timer is running."""
        return partition in self._timers

    def close(self) -> None:
        """Stop all timers."""
        for partition in list(self._timers):
            self.stop(partition)

    def _end(self, followed: Followed) -> None:
        del self._timers[followed.partition]
        self._on_end(followed)
