"""The producer of a simulated process. At most one request for each partition is open at a time."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final
from zlib import crc32

from app.domain.catalogue.topic import Ack
from app.domain.errors import AngeliaError, LogUnavailableError
from app.domain.message import NewRecord, Partition
from app.log.interface import LogStats, Position
from tests.simulation.remote import Remote

if TYPE_CHECKING:
    from tests.simulation.simulated_log import SimulatedLog

# The time limits in seconds: of one attempt to send records, and of all attempts together.
TRY_S: Final = 1.2
BATCH_S: Final = 6.0

_producers = count()


@dataclass(slots=True, eq=False)
class _Batch:
    records: Sequence[NewRecord]
    ack: Ack
    answer: "asyncio.Future[int]"
    begun: bool = False


@dataclass(slots=True)
class _Queue:
    waiting: deque[_Batch] = field(default_factory=deque)
    sends: bool = False


class Producer:
    """The producer of one process."""

    def __init__(self, log: "SimulatedLog", remote: Remote, stats: LogStats) -> None:
        self._log = log
        self._remote = remote
        self._stats = stats
        self._id = f"{remote.process}/{next(_producers)}"
        self._turns = count()
        self._numbers = count()
        self._queues: dict[Partition, _Queue] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack
    ) -> Sequence[Position]:
        """Append records, as `MessageLog.append` does."""
        by_partition: dict[Partition, list[tuple[int, NewRecord]]] = {}
        partitions = self._log.existing(topic)
        for place, record in enumerate(records):
            turn = next(self._turns) if record.key is None else crc32(record.key)
            partition = partitions[turn % len(partitions)]
            by_partition.setdefault(partition, []).append((place, record))
        batches = {
            partition: self._queued(partition, [record for _, record in mine], ack)
            for partition, mine in by_partition.items()
        }
        try:
            firsts = dict(zip(batches, await _all(batches.values()), strict=True))
        finally:
            self._drop(batches)
        self._stats.appended_records += len(records)
        positions: dict[int, Position] = {}
        for partition, mine in by_partition.items():
            for index, (place, _) in enumerate(mine):
                positions[place] = Position(partition, firsts[partition] + index)
        return [positions[place] for place in range(len(records))]

    def _queued(self, partition: Partition, records: Sequence[NewRecord], ack: Ack) -> _Batch:
        loop = asyncio.get_running_loop()
        batch = _Batch(records, ack, loop.create_future())
        queue = self._queues.setdefault(partition, _Queue())
        queue.waiting.append(batch)
        if not queue.sends:
            queue.sends = True
            task = loop.create_task(self._send_all(partition, queue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return batch

    def _drop(self, batches: dict[Partition, _Batch]) -> None:
        """Forget records that were not sent yet, because their caller does not wait any longer."""
        for partition, batch in batches.items():
            if not batch.begun and batch in self._queues[partition].waiting:
                self._queues[partition].waiting.remove(batch)
            if not batch.answer.done():
                batch.answer.cancel()

    async def _send_all(self, partition: Partition, queue: _Queue) -> None:
        try:
            while queue.waiting:
                ack = queue.waiting[0].ack
                taken = []
                while queue.waiting and queue.waiting[0].ack is ack:
                    taken.append(queue.waiting.popleft())
                await self._send(partition, taken, ack)
        finally:
            queue.sends = False

    async def _send(self, partition: Partition, taken: Sequence[_Batch], ack: Ack) -> None:
        for batch in taken:
            batch.begun = True
        records = [record for batch in taken for record in batch.records]
        try:
            first = await self._first_offset(partition, records, ack)
        except AngeliaError as error:
            for batch in taken:
                if not batch.answer.done():
                    batch.answer.set_exception(error)
                    # Mark the error as seen, because the caller may not wait any longer.
                    batch.answer.exception()
            return
        for batch in taken:
            if not batch.answer.done():
                batch.answer.set_result(first)
            first += len(batch.records)

    async def _first_offset(
        self, partition: Partition, records: Sequence[NewRecord], ack: Ack
    ) -> int:
        """Send records; return the offset of the first one.

        After a missing answer, the same records are sent again, unless the ack is that of the
        leader only.
        """
        number = (self._id, next(self._numbers)) if self._log.numbered and ack is Ack.ALL else None
        end = asyncio.get_running_loop().time() + BATCH_S
        while True:
            try:
                return await self._remote.ask(
                    lambda reply: self._log.append(
                        partition, records, ack=ack, number=number, reply=reply
                    ),
                    timeout_s=TRY_S,
                )
            except LogUnavailableError:
                over = asyncio.get_running_loop().time() + TRY_S > end
                if over or ack is Ack.LEADER:
                    raise


async def _all(batches: Iterable[_Batch]) -> list[int]:
    return [await batch.answer for batch in list(batches)]
