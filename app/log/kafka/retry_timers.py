"""Timers for partitions that could not be read, and are tried again after a pause."""

import asyncio
from collections.abc import Callable, Collection

from app.domain.message import Partition
from app.log.kafka.session import Followed


class RetryTimers:
    """Calls `try_again` for a partition when its pause ends. Each partition has one timer."""

    def __init__(self, try_again: Callable[[Followed], None]) -> None:
        """Create the timers, which call `try_again`."""
        self._try_again = try_again
        self._timers: dict[Partition, asyncio.TimerHandle] = {}

    def start(self, failed: Collection[Followed], seconds: float) -> None:
        """Start the timers of these partitions. A timer that is running starts again."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        for each in failed:
            self.stop(each.partition)
            self._timers[each.partition] = loop.call_at(at, self._end, each)

    def stop(self, partition: Partition) -> None:
        """Stop the partition's timer, if any."""
        if timer := self._timers.pop(partition, None):
            timer.cancel()

    def runs(self, partition: Partition) -> bool:
        """Whether the partition waits for its next try."""
        return partition in self._timers

    def close(self) -> None:
        """Stop all timers."""
        for partition in list(self._timers):
            self.stop(partition)

    def _end(self, failed: Followed) -> None:
        del self._timers[failed.partition]
        self._try_again(failed)
