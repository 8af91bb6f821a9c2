"""One partition of the simulated log: a leader, its replicas, and what is lost with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from app.domain.message import NewRecord, Partition, Record
from app.log.interface import Chunk


def size_of(record: Record) -> int:
    """The bytes that a record counts for."""
    return len(record.key or b"") + len(record.value or b"")


@dataclass(slots=True)
class _Waiting:
    """An append that is answered when the replicas have everything before `end`."""

    end: int
    answer: Callable[[], None]


@dataclass(slots=True)
class SimulatedPartition:
    """Records from offset `start` on. Readers see those before the high watermark only."""

    partition: Partition
    start: int = 0
    high: int = 0
    records: list[Record] = field(default_factory=list)
    has_leader: bool = True
    # Whether replicas take what the leader has.
    replicates: bool = True
    term: int = 0
    # What each producer appended under its numbers: the first offset of each.
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)
    _waiting: list[_Waiting] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The offset of the next record at the leader."""
        return self.start + len(self.records)

    def append(self, new: Sequence[NewRecord], now_ms: int) -> int:
        """Append at the leader; return the first offset."""
        first = self.end
        for offset, each in enumerate(new, start=first):
            at = now_ms if each.timestamp_ms is None else each.timestamp_ms
            self.records.append(Record(offset, at, each.key, each.value, list(each.headers)))
        return first

    def when_replicated(self, end: int, answer: Callable[[], None]) -> None:
        """Call `answer` when all replicas have what is before `end`; never if the leader dies."""
        if self.high >= end:
            answer()
        else:
            self._waiting.append(_Waiting(end, answer))

    def replicate(self, end: int, term: int) -> bool:
        """Let the replicas have what is before `end`; return whether readers see more."""
        if term != self.term or not self.replicates or end <= self.high:
            return False
        self.high = end
        ready = [each for each in self._waiting if each.end <= end]
        self._waiting = [each for each in self._waiting if each.end > end]
        for each in ready:
            each.answer()
        return True

    def elect(self, at: int | None = None) -> tuple[int, int]:
        """Make a replica the leader: with what all had, or an unclean one that has less.

        Returns:
            The first and the next offset of what is lost.
        """
        before, kept = self.end, self.high if at is None else max(self.start, min(at, self.high))
        del self.records[kept - self.start :]
        self.high, self.term, self.has_leader = kept, self.term + 1, True
        self._waiting.clear()
        self.numbers = {number: first for number, first in self.numbers.items() if first < kept}
        return kept, before

    def trim(self, offset: int) -> None:
        """Drop the records before `offset`, as retention does."""
        del self.records[: offset - self.start]
        self.start = offset
        self.high = max(self.high, offset)

    def read(self, offset: int, bytes_max: int) -> Chunk:
        """Return what a reader gets at `offset`."""
        if not self.start <= offset <= self.high:
            return Chunk(self.partition, offset, self.start, (), 0, gap=True)
        taken: list[Record] = []
        size = 0
        for record in self.records[offset - self.start : self.high - self.start]:
            if size >= bytes_max:
                break
            taken.append(record)
            size += size_of(record)
        return Chunk(self.partition, offset, offset + len(taken), taken, size)
