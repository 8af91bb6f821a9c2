"""Observers of the simulated log."""

from collections.abc import Collection, Sequence
from typing import Protocol

from app.domain.message import NewRecord, Partition
from app.log.interface import Committed
from tests.simulation.log_group import OwnershipObserver


class LogObserver(OwnershipObserver, Protocol):
    """Is told what happens in the log."""

    def stored(self, partition: Partition, first: int, records: Sequence[NewRecord]) -> None:
        """Called when a leader has stored records."""

    def lost(self, partition: Partition, start: int, end: int, *, why: str) -> None:
        """Called when the log has lost the records from `start` to before `end`."""

    def committed(self, process: str, group: str, *, partition: Partition, what: Committed) -> None:
        """Called when the log has stored a commit."""

    def commit_read(
        self, process: str, group: str, *, partition: Partition, what: Committed
    ) -> None:
        """Called when a process has read a commit."""


class Unobserved:
    """An observer that ignores everything."""

    def stored(self, partition: Partition, first: int, records: Sequence[NewRecord]) -> None:
        del partition, first, records

    def lost(self, partition: Partition, start: int, end: int, *, why: str) -> None:
        del partition, start, end, why

    def committed(self, process: str, group: str, *, partition: Partition, what: Committed) -> None:
        del process, group, partition, what

    def commit_read(
        self, process: str, group: str, *, partition: Partition, what: Committed
    ) -> None:
        del process, group, partition, what

    def owned(self, process: str, partitions: Collection[Partition], *, gained: bool) -> None:
        del process, partitions, gained
