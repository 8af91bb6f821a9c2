"""One partition of the simulated log. It has a leader and replicas, and can lose records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from app.domain.message import NewRecord, Partition, Record
from app.log.interface import Chunk


def size_of(record: Record) -> int:
    """Return the number of bytes that a record counts for."""
    return len(record.key or b"") + len(record.value or b"")


@dataclass(slots=True)
class _Waiting:
    """An append that is answered when the replicas have all records before `end`."""

    end: int
    answer: Callable[[], None]


@dataclass(slots=True)
class SimulatedPartition:
    """The records of a partition, from the offset `start` on.

    Readers see only records before the high watermark (`high`).
    """

    partition: Partition
    start: int = 0
    high: int = 0
    records: list[Record] = field(default_factory=list)
    has_leader: bool = True
    # Whether the replicas copy records from the leader.
    replicates: bool = True
    term: int = 0
    # The offset of the first record of each append, by its producer and the producer's number.
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)
    _waiting: list[_Waiting] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The offset of the leader's next record."""
        return self.start + len(self.records)

    def append(self, new: Sequence[NewRecord], now_ms: int) -> int:
        """Append records at the leader, and return the offset of the first one."""
        first = self.end
        for offset, each in enumerate(new, start=first):
            at = now_ms if each.timestamp_ms is None else each.timestamp_ms
            self.records.append(Record(offset, at, each.key, each.value, list(each.headers)))
        return first

    def when_replicated(self, end: int, answer: Callable[[], None]) -> None:
        """Call `answer` when all replicas have the records before `end`.

        If the leader dies before, `answer` is never called.
        """
        if self.high >= end:
            answer()
        else:
            self._waiting.append(_Waiting(end, answer))

    def replicate(self, end: int, term: int) -> bool:
        """Copy the records before `end` to the replicas.

        Return whether readers see more records now.
        """
        if term != self.term or not self.replicates or end <= self.high:
            return False
        self.high = end
        ready = [each for each in self._waiting if each.end <= end]
        self._waiting = [each for each in self._waiting if each.end > end]
        for each in ready:
            each.answer()
        return True

    def elect(self, at: int | None = None) -> tuple[int, int]:
        """Make a replica the leader.

        Without `at`, the new leader has all replicated records. With `at`, its records end there,
        so that records are lost that readers have seen.

        Returns:
            The first lost offset, and the offset after the last lost one.
        """
        before, kept = self.end, self.high if at is None else max(self.start, min(at, self.high))
        del self.records[kept - self.start :]
        self.high, self.term, self.has_leader = kept, self.term + 1, True
        self._waiting.clear()
        self.numbers = {number: first for number, first in self.numbers.items() if first < kept}
        return kept, before

    def trim(self, offset: int) -> None:
        """Remove the records before `offset`, as retention does."""
        del self.records[: offset - self.start]
        self.start = offset
        self.high = max(self.high, offset)

    def read(self, offset: int, bytes_max: int) -> Chunk:
        """Return the chunk that a reader gets at `offset`."""
        if not self.start <= offset <= self.high:
            return Chunk(self.partition, offset, self.start, (), 0, gap=True, log_end=self.high)
        taken: list[Record] = []
        size = 0
        for record in self.records[offset - self.start : self.high - self.start]:
            if size >= bytes_max:
                break
            taken.append(record)
            size += size_of(record)
        return Chunk(self.partition, offset, offset + len(taken), taken, size)
