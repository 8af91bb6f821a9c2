"""Words that the contract tests share."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta

from app.domain.message import NewRecord, Partition, Record
from app.log.interface import Assigned, LogTopic, MessageLog, Ownership, Revoked, Tail

TOPIC = "shop.orders"
MEBIBYTE = 1 << 20
# In real time. Nothing of a log takes so long, except on a machine that is busy with other things.
EVENTUALLY = 45.0


def a_topic(name: str = TOPIC, *, partitions: int = 4) -> LogTopic:
    return LogTopic(
        name=name,
        partitions=partitions,
        retention=timedelta(days=1),
        message_size_max=2 * MEBIBYTE,
    )


def records(*values: str, key: str | None = None) -> list[NewRecord]:
    encoded = None if key is None else key.encode()
    return [NewRecord(value=value.encode(), key=encoded) for value in values]


async def created(log: MessageLog, name: str = TOPIC, *, partitions: int = 1) -> list[Partition]:
    await log.create_topic(a_topic(name, partitions=partitions))
    return list(await log.partitions(name))


async def read_all(log: MessageLog, partition: Partition, offset: int = 0) -> list[Record]:
    """All records from `offset` to the end as it is now."""
    found: list[Record] = []
    end = (await log.bounds([partition]))[partition].end
    while offset < end:
        chunk = await log.fetch(partition, offset, bytes_max=MEBIBYTE)
        found += chunk.records
        offset = chunk.next_offset
    return found


async def read_values(log: MessageLog, partition: Partition, offset: int = 0) -> list[str]:
    return values(await read_all(log, partition, offset))


def values(found: Iterable[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in found]


async def eventually(
    condition: Callable[[], Awaitable[bool]], *, seconds: float = EVENTUALLY
) -> None:
    """Return when the condition holds; TimeoutError when it does not in time."""
    async with asyncio.timeout(seconds):
        # The log tells no one of what is looked for here.
        while not await condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)


class Collected:
    """What a tail has read so far."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self.values: dict[Partition, list[str]] = {}
        self.gaps: dict[Partition, int] = {}

    async def until(self, partition: Partition, *wanted: str, seconds: float = EVENTUALLY) -> None:
        """Read on until these are all the values of the partition."""
        async with asyncio.timeout(seconds):
            while self.values.get(partition) != list(wanted):
                await self.once()

    async def once(self) -> None:
        for chunk in await self._tail.chunks():
            self.values.setdefault(chunk.partition, []).extend(values(chunk.records))
            if chunk.gap:
                self.gaps[chunk.partition] = chunk.next_offset


class Holder:
    """A member that keeps what it is given, and releases at once what is revoked if `releases`."""

    def __init__(self, ownership: Ownership, *, releases: bool = True) -> None:
        self.ownership = ownership
        self._releases = releases
        self._changed = asyncio.Event()
        self.owned: set[Partition] = set()
        self.revoked: list[Revoked] = []
        self.lost: set[Partition] = set()
        self.assigned = 0

    def subscribe(self, topics: Collection[str]) -> None:
        """Subscribe to these topics and no others."""
        self.ownership.subscribe(topics)

    async def run(self) -> None:
        """Follow the events until they end or it is cancelled."""
        async for event in self.ownership.events():
            match event:
                case Assigned(partitions):
                    assert not self.owned & partitions, "assigned twice"
                    self.owned |= partitions
                    self.assigned += len(partitions)
                case Revoked(partitions, release):
                    self.revoked.append(event)
                    # It may be assigned again, even before it was released: the other one left.
                    self.owned -= partitions
                    if self._releases:
                        release()
                case _:
                    self.owned -= event.partitions
                    self.lost |= event.partitions
            self._changed.set()

    async def until(
        self, condition: Callable[["Holder"], bool], *, seconds: float = EVENTUALLY
    ) -> None:
        """Wait until the condition holds; TimeoutError when it does not in time."""
        async with asyncio.timeout(seconds):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def holding(
    log: MessageLog,
    name: str,
    topics: Collection[str] = (TOPIC,),
    *,
    capacity: float = 1.0,
    releases: bool = True,
    revoke_timeout: float = 5.0,
) -> AsyncIterator[Holder]:
    """A member that follows its events in the background."""
    async with (
        log.ownership(
            member=name,
            capacity=capacity,
            revoke_timeout=timedelta(seconds=revoke_timeout),
        ) as ownership,
        asyncio.TaskGroup() as tasks,
    ):
        holder = Holder(ownership, releases=releases)
        following = tasks.create_task(holder.run())
        ownership.subscribe(topics)
        try:
            yield holder
        finally:
            following.cancel()
