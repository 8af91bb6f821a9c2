"""The records that wait to be appended, by partition, and batches of such records (no I/O).

Each partition has at most one batch of records in flight. So records with the same key keep their
order, even without sequence numbers. The partition of a record without a key is chosen only when a
batch is made. So records that arrive together are stored together, in few batches.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from app.domain.message import NewRecord
from app.log.interface import Position
from app.log.kafka.client import NO_LEADER, Leaders
from app.log.kafka.protocol.encoding import (
    BATCH_OVERHEAD,
    NO_STAMP,
    BatchStamp,
    EncodedRecord,
    encode_record,
    partition_of,
)
from app.log.kafka.sequences import SequenceRun, later

# The maximum size of a record batch in bytes. It is below Kafka's default limit of 1,048,588 bytes.
BATCH_BYTES_MAX: Final = 1_000_000


@dataclass(slots=True, eq=False)
class KafkaAppend:
    """One call of `append`. `done` is set when all `positions` are known.

    `missing` is the number of positions that are not known yet. When the caller no longer waits
    (`over`), the records that were not sent yet are never sent.
    """

    topic: str
    records: Sequence[NewRecord]
    acks: int
    done: asyncio.Future[Sequence[Position]]
    positions: list[Position | None]
    missing: int

    @property
    def over(self) -> bool:
        """Whether the caller no longer waits for this append."""
        return self.done.done()


class AppendItem(NamedTuple):
    """One record of an append call, either waiting or in flight.

    `record_index` is the record's index in the call.
    """

    call: KafkaAppend
    record_index: int
    record: EncodedRecord


@dataclass(slots=True)
class Line:
    """The queue of records for one partition, which also says whether a batch is in flight.

    A sealed batch was sent before, and may be stored already. So it keeps its records and their
    sequence numbers, and is sent before the waiting records.
    """

    waiting: deque[AppendItem] = field(default_factory=deque)
    under_way: bool = False
    batch_bytes: int = BATCH_BYTES_MAX
    # Another limit, which is lower after a batch with a record that the broker refused. So such a
    # record is soon alone in its batch. Each stored batch doubles the limit.
    trial_bytes: int = BATCH_BYTES_MAX
    sealed: "deque[AppendBatch]" = field(default_factory=deque)
    run: SequenceRun | None = None
    # How many times the broker has refused the sequence numbers of this partition, one after
    # another. After too many refusals, batches have no sequence numbers until the time in the next
    # field (monotonic clock).
    refusals: int = 0
    numbered_again_at: float = 0.0

    @property
    def waits(self) -> bool:
        """Whether the partition has anything to send."""
        return bool(self.waiting or self.sealed)

    def drop_over(self) -> None:
        """Drop the records whose callers do not wait any more."""
        self.waiting = _still_wanted(self.waiting)
        self.drop_sealed_over()

    def drop_sealed_over(self) -> None:
        """Drop the sealed batches if no caller waits for any record in them any more."""
        if all(batch.over for batch in self.sealed):
            self.drop_sealed()

    def drop_sealed(self) -> None:
        """Drop the sealed batches, if there are any.

        Nobody knows whether the dropped batches are stored. So their sequence numbers cannot be
        used again, and the next batch begins a new series of sequence numbers (`SequenceRun`).
        """
        if self.sealed:
            self.sealed.clear()
            self.run = None

    def unseal(self) -> None:
        """Put the records of the sealed batches, which are not stored, back into the queue."""
        while self.sealed:
            self.put_back(self.sealed.pop().items)

    def grow(self) -> None:
        """Allow larger batches again, because a batch is stored."""
        self.trial_bytes = min(2 * self.trial_bytes, BATCH_BYTES_MAX)

    def put_back(self, items: Sequence[AppendItem]) -> None:
        """Put the records back at the front of the queue, in their order."""
        self.waiting.extendleft(reversed(items))

    def clear(self) -> list[AppendItem]:
        """Drop and return all records."""
        items = [*(item for batch in self.sealed for item in batch.items), *self.waiting]
        self.waiting.clear()
        self.drop_sealed()
        return items


def take(waiting: deque[AppendItem], bytes_max: int) -> list[AppendItem]:
    """Take the records for one record batch from `waiting`: at least one, if `waiting` has any.

    The result leaves out records whose callers no longer wait.
    """
    items: list[AppendItem] = []
    room = bytes_max - BATCH_OVERHEAD
    while waiting:
        item = waiting[0]
        if not item.call.over:
            room -= item.record.size
            if items and room < 0:
                break
            items.append(item)
        waiting.popleft()
    return items


@dataclass(slots=True)
class AppendTopic:
    """One topic: its partitions, and the records that wait to be sent to them.

    `unplaced` has the calls whose records wait until the partitions of the topic are known. `spare`
    has the records without a key, which may go to any partition.
    """

    name: str
    leaders: Leaders = field(default_factory=dict)
    known_at: float = -math.inf
    locating: bool = False
    unplaced: deque[KafkaAppend] = field(default_factory=deque)
    spare: deque[AppendItem] = field(default_factory=deque)
    lines: dict[int, Line] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    turn: int = 0

    def located(self, leaders: Leaders, now: float) -> None:
        """Set the leaders of the partitions."""
        self.leaders = leaders
        self.order = sorted(leaders)
        self.turn %= max(1, len(leaders))
        self.known_at = now

    def unknown(self) -> None:
        """Forget the leaders. Nothing is sent until the leaders are found again."""
        self.leaders = dict.fromkeys(self.leaders, NO_LEADER)

    def assign(self, now_ms: int) -> None:
        """Assign the records of new calls to partitions, if the partitions are known."""
        count = len(self.leaders)
        while count and self.unplaced:
            call = self.unplaced.popleft()
            for index, record in enumerate(call.records):
                item = AppendItem(call, index, encode_record(record, now_ms))
                self._queue(record.key, count).append(item)

    def _queue(self, key: bytes | None, count: int) -> deque[AppendItem]:
        # If the topic has only one partition, put records without a key into its queue, too. So all
        # records keep their order.
        if count == 1:
            return self._line(self.order[0]).waiting
        if key is None:
            return self.spare
        return self._line(partition_of(key, count)).waiting

    def batches(self, ready: Callable[[int], bool]) -> Iterator["AppendBatch"]:
        """Yield a batch of records for each partition that has waiting records and a ready leader.

        `ready` tells whether a broker, by its number, accepts a request now. Each yielded batch
        counts as in flight.
        """
        for partition, line in self.lines.items():
            if line.waits and self._can_send(partition, ready):
                line.drop_sealed_over()
                yield from self._sealed(partition) or self._batch(partition, line.waiting)
        yield from self._batches_of_spare(ready)

    def _batches_of_spare(self, ready: Callable[[int], bool]) -> Iterator["AppendBatch"]:
        count, start = len(self.order), self.turn
        for index in range(start, start + count):
            if not self.spare:
                return
            partition = self.order[index % count]
            if self._can_send(partition, ready):
                # Let the next batch of records without a key go to the next partition.
                self.turn = (index + 1) % count
                yield from self._batch(partition, self.spare)

    def _can_send(self, partition: int, ready: Callable[[int], bool]) -> bool:
        leader = self.leaders.get(partition, NO_LEADER)
        return leader != NO_LEADER and not self._line(partition).under_way and ready(leader)

    def _sealed(self, partition: int) -> Sequence["AppendBatch"]:
        line = self._line(partition)
        if not line.sealed:
            return ()
        batch = line.sealed.popleft()
        line.under_way = True
        batch.leader = self.leaders[partition]
        return (batch,)

    def _batch(self, partition: int, waiting: deque[AppendItem]) -> Iterator["AppendBatch"]:
        line = self._line(partition)
        if items := take(waiting, min(line.batch_bytes, line.trial_bytes)):
            line.under_way = True
            yield AppendBatch(self, partition, self.leaders[partition], items)

    def wanted(self) -> set[int]:
        """Return the brokers that lead the partitions for which records wait.

        The result contains NO_LEADER if a leader is unknown.
        """
        found = {
            self.leaders.get(partition, NO_LEADER)
            for partition, line in self.lines.items()
            if line.waits and not line.under_way
        }
        if self.spare:
            found |= set(self.leaders.values()) - {NO_LEADER} or {NO_LEADER}
        if self.unplaced:
            found.add(NO_LEADER)
        return found

    @property
    def waits(self) -> bool:
        """Whether any record of the topic waits to be sent."""
        return bool(self.unplaced or self.spare or any(line.waits for line in self.lines.values()))

    def drop_over(self) -> None:
        """Drop the records whose callers do not wait any more."""
        self.unplaced = deque(call for call in self.unplaced if not call.over)
        self.spare = _still_wanted(self.spare)
        for line in self.lines.values():
            line.drop_over()

    def clear(self) -> list[KafkaAppend]:
        """Drop all waiting records. Return the calls of `append` to which the records belong."""
        items = [*self.spare, *(item for line in self.lines.values() for item in line.clear())]
        calls = {id(call): call for call in (*self.unplaced, *(item.call for item in items))}
        self.unplaced.clear()
        self.spare.clear()
        return list(calls.values())

    def _line(self, partition: int) -> Line:
        return self.lines.setdefault(partition, Line())


@dataclass(slots=True, eq=False)
class AppendBatch:
    """Records of one partition that are sent together to its leader."""

    topic: AppendTopic
    partition: int
    leader: int
    items: list[AppendItem]
    stamp: BatchStamp = NO_STAMP
    # Whether the batch was sent before, so that it may be stored already.
    repeated: bool = False
    # How often the batch was sent without a response.
    losses: int = 0

    @property
    def numbered(self) -> bool:
        """Whether the batch has a sequence number."""
        return self.stamp is not NO_STAMP

    @property
    def over(self) -> bool:
        """Whether no caller waits for any record of the batch any more."""
        return all(call.over for call in self.calls)

    def halves(self) -> Sequence["AppendBatch"]:
        """Return two batches that together have the same records with the same sequence numbers.

        If this whole batch is stored already, the broker refuses both halves, because it expects
        the numbers that come after the whole batch.
        """
        middle = len(self.items) // 2
        second = replace(self, items=self.items[middle:], stamp=later(self.stamp, middle))
        return (replace(self, items=self.items[:middle]), second)

    @property
    def line(self) -> Line:
        """The queue of the partition to which the records of the batch belong."""
        return self.topic.lines[self.partition]

    @property
    def acks(self) -> int:
        """The strictest acknowledgement that was requested for any record of the batch."""
        return min(item.call.acks for item in self.items)

    @property
    def size(self) -> int:
        """The largest possible size of the batch before compression, in bytes."""
        return BATCH_OVERHEAD + sum(item.record.size for item in self.items)

    @property
    def calls(self) -> Iterable[KafkaAppend]:
        """Return the append calls that the records belong to."""
        return {id(item.call): item.call for item in self.items}.values()


Addresses = Mapping[int, tuple[str, int]]


class Located(NamedTuple):
    """The leader of each partition of a topic, and the addresses of all brokers."""

    leaders: Leaders
    addresses: Addresses


def _still_wanted(items: Iterable[AppendItem]) -> deque[AppendItem]:
    return deque(item for item in items if not item.call.over)
