"""Timers for reading from replicas. A leader chooses a replica again when its timer ends."""

import asyncio
from collections.abc import Callable

from app.domain.message import Partition
from app.log.kafka.partition_leaders import AVOIDED_FOR_S, CHOSEN_FOR_S
from app.log.kafka.session import Followed


class ChoiceTimers:
    """Calls `choose_again` when the leader of a partition must choose a replica again."""

    def __init__(self, choose_again: Callable[[Followed], None]) -> None:
        """Create the timers, which call `choose_again`."""
        self._choose_again = choose_again
        self._timers: dict[Partition, asyncio.TimerHandle] = {}

    def chosen(self, followed: Followed) -> None:
        """Start the timer after the leader has chosen a replica."""
        self._start(followed, CHOSEN_FOR_S)

    def avoided(self, followed: Followed) -> None:
        """Start the timer after a replica has failed. Until the timer ends, the leader is read."""
        self._start(followed, AVOIDED_FOR_S)

    def read(self, followed: Followed) -> None:
        """Start the timer after a read, unless a timer of the partition is already running."""
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
