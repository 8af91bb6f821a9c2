"""Which replica each partition is read from: its leader's choice by rack (KIP-392; no I/O)."""

import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from app.domain.message import Partition

# The time after which the leader chooses a replica again.
CHOSEN_FOR_S: Final = 300.0
# How long the leader itself is read after another replica failed.
AVOIDED_FOR_S: Final = 30.0


class ReadPlace(NamedTuple):
    """A broker to read from.

    `by_rack` means that a leader may name another replica instead of answering.
    """

    node: int
    is_leader: bool = True
    by_rack: bool = False


class _Choice(NamedTuple):
    # The replica; None for the leader itself.
    node: int | None
    until: float


class ReadReplicas:
    """The replicas that leaders named for readers in this rack."""

    def __init__(self, rack: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Create the choices; without a `rack`, leaders are read."""
        self._rack = rack
        self._clock = clock
        self._chosen: dict[Partition, _Choice] = {}

    def place(self, partition: Partition, leader: int) -> ReadPlace:
        """Return where to read the partition now."""
        choice = self._current(partition)
        if choice is None:
            return ReadPlace(leader, by_rack=bool(self._rack))
        if choice.node is None:
            return ReadPlace(leader)
        return ReadPlace(choice.node, is_leader=choice.node == leader, by_rack=True)

    def choose(self, partition: Partition, node: int) -> None:
        """Read the partition from the broker that its leader named."""
        self._chosen[partition] = _Choice(node, self._clock() + CHOSEN_FOR_S)

    def avoid(self, partitions: Iterable[Partition]) -> None:
        """Read the leaders themselves for a while, because another replica failed."""
        until = self._clock() + AVOIDED_FOR_S
        for partition in partitions:
            self._chosen[partition] = _Choice(None, until)

    def forget(self, partition: Partition) -> None:
        """Let the leader choose again."""
        self._chosen.pop(partition, None)

    def _current(self, partition: Partition) -> _Choice | None:
        choice = self._chosen.get(partition)
        if choice is not None and self._clock() >= choice.until:
            self.forget(partition)
            return None
        return choice
