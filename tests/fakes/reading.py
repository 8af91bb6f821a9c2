"""A reader, a tail and a log that a test controls, and chunks: for tests of feeds and readers."""

import asyncio
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from app.domain.errors import AngeliaError, LogUnavailableError
from app.domain.message import Message, Partition, Record
from app.log.interface import Bounds, Chunk
from workers.reading.feed import Batch

ORDERS = Partition("shop.orders", 0)


def a_record(offset: int) -> Record:
    return Record(offset, 0, None, b"%d" % offset, [])


def a_chunk(
    offset: int, stop: int, *, size: int = 100, empty: bool = False, partition: Partition = ORDERS
) -> Chunk:
    """Return a chunk of the offsets from `offset` to before `stop`.

    With `empty` it has no records.
    """
    records = [] if empty else [a_record(number) for number in range(offset, stop)]
    return Chunk(partition, offset, stop, records, size)


def a_gap(offset: int, goes_on_at: int, log_end: int | None = None) -> Chunk:
    return Chunk(ORDERS, offset, goes_on_at, (), 0, gap=True, log_end=log_end)


def a_batch(offset: int, stop: int, *, size: int = 100, holes: Sequence[int] = ()) -> Batch:
    messages = [Message(a_record(n), ORDERS) for n in range(offset, stop) if n not in holes]
    return Batch(offset, stop, messages, size)


class StandingReader:
    """A reader that stays at its position, and remembers how it was called."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.woken = 0
        self.rewound_to: int | None = None

    def wake(self) -> None:
        self.woken += 1

    def rewind(self, position: int) -> None:
        self.position = self.rewound_to = position


class ScriptedTail:
    """A tail that returns the chunks that a test gives it."""

    def __init__(self) -> None:
        self.followed: dict[Partition, int] = {}
        self._chunks: asyncio.Queue[Chunk] = asyncio.Queue()

    def follow(self, partition: Partition, offset: int) -> None:
        self.followed[partition] = offset

    def unfollow(self, partition: Partition) -> None:
        self.followed.pop(partition, None)

    def bring(self, *chunks: Chunk) -> None:
        for chunk in chunks:
            self._chunks.put_nowait(chunk)

    @property
    def unread(self) -> int:
        """The number of chunks that were not read yet."""
        return self._chunks.qsize()

    async def chunks(self) -> Sequence[Chunk]:
        return [await self._chunks.get()]


class ScriptedFetches:
    """A log with only the methods `fetch` and `bounds`.

    Each call of `fetch` waits until the test answers it. `bounds` answers with `end`, after
    `failures` errors.
    """

    def __init__(self) -> None:
        self.end = 1 << 40
        self.failures = 0
        self.asked: deque[tuple[Partition, int]] = deque()
        self.asked_in_all = 0
        self._answers: deque[asyncio.Future[Chunk]] = deque()

    async def fetch(
        self, partition: Partition, offset: int, *, bytes_max: int, wait: timedelta = timedelta()
    ) -> Chunk:
        del bytes_max, wait
        self.asked.append((partition, offset))
        self.asked_in_all += 1
        answer: asyncio.Future[Chunk] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        return await answer

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        if self.failures:
            self.failures -= 1
            raise LogUnavailableError("the log is down")
        return {partition: Bounds(0, self.end) for partition in partitions}

    def answer(self, chunk: Chunk) -> None:
        """Answer the oldest call of `fetch` with this chunk."""
        self.asked.popleft()
        self._answers.popleft().set_result(chunk)

    def fail(self, error: AngeliaError | None = None) -> None:
        self.asked.popleft()
        cause = error or LogUnavailableError("the log is down")
        self._answers.popleft().set_exception(cause)
