"""A tail of the log in memory."""

from collections.abc import Callable, Sequence

from app.domain.message import Partition
from app.log.interface import Chunk
from tests.fakes.signal import Signal


class MemoryTail:
    """Reads the partitions that it follows, by calls of `read`, after each signal of `changed`."""

    def __init__(self, read: Callable[[Partition, int], Chunk | None], changed: Signal) -> None:
        self._read = read
        self._changed = changed
        self._positions: dict[Partition, int] = {}

    def follow(self, partition: Partition, offset: int) -> None:
        self._positions[partition] = offset
        self._changed.send()

    def unfollow(self, partition: Partition) -> None:
        self._positions.pop(partition, None)

    async def chunks(self) -> Sequence[Chunk]:
        while not (chunks := self._ready()):
            await self._changed.wait()
        return chunks

    def _ready(self) -> list[Chunk]:
        read = [self._read(partition, offset) for partition, offset in self._positions.items()]
        chunks = [chunk for chunk in read if chunk is not None]
        for chunk in chunks:
            self._positions[chunk.partition] = chunk.next_offset
        return chunks
