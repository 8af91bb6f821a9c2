"""What waits to be appended: by topic and partition, and the batches it goes in (no I/O).

One batch of a partition is under way at a time: that keeps the order of a key without sequence
numbers. Records without a key get their partition when a batch is made, so that what came together
is stored together, in few batches.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.domain.message import NewRecord
from app.log.interface import Position
from app.log.kafka.client import NO_LEADER, Leaders
from app.log.kafka.protocol.encoding import (
    BATCH_OVERHEAD,
    EncodedRecord,
    encode_record,
    partition_of,
)

# Below Kafka's default for the largest batch, 1,048,588 bytes.
BATCH_BYTES_MAX: Final = 1_000_000


@dataclass(slots=True, eq=False)
class KafkaAppend:
    """One call of `append`: `done` is set once none of its `positions` is missing.

    What is not under way when it is `over` never will be.
    """

    topic: str
    records: Sequence[NewRecord]
    acks: int
    done: asyncio.Future[Sequence[Position]]
    positions: list[Position | None]
    missing: int

    @property
    def over(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.done.done()


class AppendItem(NamedTuple):
    """One record of a call, on its way."""

    call: KafkaAppend
    place: int
    record: EncodedRecord


@dataclass(slots=True)
class Line:
    """The records waiting for one partition, and whether a batch of it is under way."""

    waiting: deque[AppendItem] = field(default_factory=deque)
    under_way: bool = False
    batch_bytes: int = BATCH_BYTES_MAX

    def put_back(self, items: Sequence[AppendItem]) -> None:
        """They go first, in their order."""
        self.waiting.extendleft(reversed(items))


def take(waiting: deque[AppendItem], bytes_max: int) -> list[AppendItem]:
    """What fits one batch, at least one if there is one; nothing that is over."""
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
    """One topic: where its partitions are, and what waits for them.

    `unplaced` waits until that is known; `spare` goes to any partition.
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
        """Take over where its partitions are."""
        self.leaders = leaders
        self.order = sorted(leaders)
        self.turn %= max(1, len(leaders))
        self.known_at = now

    def unknown(self) -> None:
        """Nothing is sent until a leader is found."""
        self.leaders = dict.fromkeys(self.leaders, NO_LEADER)

    def place(self, now_ms: int) -> None:
        """Put the records of new calls where they go, if the partitions are known."""
        count = len(self.leaders)
        while count and self.unplaced:
            call = self.unplaced.popleft()
            for place, record in enumerate(call.records):
                item = AppendItem(call, place, encode_record(record, now_ms))
                self._queue(record.key, count).append(item)

    def _queue(self, key: bytes | None, count: int) -> deque[AppendItem]:
        # All that goes to one partition keeps its order there.
        if count == 1:
            return self._line(self.order[0]).waiting
        if key is None:
            return self.spare
        return self._line(partition_of(key, count)).waiting

    def batches(self, ready: Callable[[int], bool]) -> Iterator["AppendBatch"]:
        """A batch of each partition that has something to send, if its leader is `ready` for it.

        Each is under way from here on.
        """
        for partition, line in self.lines.items():
            if line.waiting and self._can_send(partition, ready):
                yield from self._batch(partition, line.waiting)
        yield from self._batches_of_spare(ready)

    def _batches_of_spare(self, ready: Callable[[int], bool]) -> Iterator["AppendBatch"]:
        count, start = len(self.order), self.turn
        for place in range(start, start + count):
            if not self.spare:
                return
            partition = self.order[place % count]
            if self._can_send(partition, ready):
                # The next ones go elsewhere.
                self.turn = (place + 1) % count
                yield from self._batch(partition, self.spare)

    def _can_send(self, partition: int, ready: Callable[[int], bool]) -> bool:
        leader = self.leaders.get(partition, NO_LEADER)
        return leader != NO_LEADER and not self._line(partition).under_way and ready(leader)

    def _batch(self, partition: int, waiting: deque[AppendItem]) -> Iterator["AppendBatch"]:
        line = self._line(partition)
        if items := take(waiting, line.batch_bytes):
            line.under_way = True
            yield AppendBatch(self, partition, self.leaders[partition], items)

    def wanted(self) -> set[int]:
        """The brokers that what waits needs, NO_LEADER among them when one is not known."""
        found = {
            self.leaders.get(partition, NO_LEADER)
            for partition, line in self.lines.items()
            if line.waiting and not line.under_way
        }
        if self.spare:
            found |= set(self.leaders.values()) - {NO_LEADER} or {NO_LEADER}
        if self.unplaced:
            found.add(NO_LEADER)
        return found

    @property
    def waits(self) -> bool:
        """Whether anything waits."""
        return bool(
            self.unplaced or self.spare or any(line.waiting for line in self.lines.values())
        )

    def drop_over(self) -> None:
        """Forget what nobody waits for any more."""
        self.unplaced = deque(call for call in self.unplaced if not call.over)
        self.spare = _still_wanted(self.spare)
        for line in self.lines.values():
            line.waiting = _still_wanted(line.waiting)

    def clear(self) -> list[KafkaAppend]:
        """Give up all that waits; the calls that it is of."""
        items = [*self.spare, *(item for line in self.lines.values() for item in line.waiting)]
        calls = {id(call): call for call in (*self.unplaced, *(item.call for item in items))}
        self.unplaced.clear()
        self.spare.clear()
        for line in self.lines.values():
            line.waiting.clear()
        return list(calls.values())

    def _line(self, partition: int) -> Line:
        return self.lines.setdefault(partition, Line())


@dataclass(slots=True, eq=False)
class AppendBatch:
    """Records of one partition, on their way to its leader."""

    topic: AppendTopic
    partition: int
    leader: int
    items: list[AppendItem]

    @property
    def line(self) -> Line:
        """Where it was taken from."""
        return self.topic.lines[self.partition]

    @property
    def acks(self) -> int:
        """The strictest that any of its calls asked for."""
        return min(item.call.acks for item in self.items)

    @property
    def size(self) -> int:
        """Its bytes, at most, before they are compressed."""
        return BATCH_OVERHEAD + sum(item.record.size for item in self.items)

    @property
    def calls(self) -> Iterable[KafkaAppend]:
        """Of which its records are."""
        return {id(item.call): item.call for item in self.items}.values()


Addresses = Mapping[int, tuple[str, int]]


class Located(NamedTuple):
    """The leader of each partition of a topic, and the brokers' addresses."""

    leaders: Leaders
    addresses: Addresses


def _still_wanted(items: Iterable[AppendItem]) -> deque[AppendItem]:
    return deque(item for item in items if not item.call.over)
