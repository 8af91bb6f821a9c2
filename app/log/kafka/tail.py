"""The tail: one incremental fetch session (KIP-227) per broker over all followed partitions.

A partition just followed is read at once by a plain fetch on another connection, and joins its
leader's session after that; so a long poll under way delays nobody. What goes wrong with a
partition or a broker sends the partitions back to that first step, with fresh leaders.
"""

import asyncio
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog
from kafka.future import Future

from app.domain.errors import LogUnavailableError
from app.domain.message import Partition
from app.log.interface import Chunk, LogStats
from app.log.kafka.bridge import IoThread, Untyped
from app.log.kafka.client import FAILED_TRY, Client
from app.log.kafka.decoding import CorruptBatchError
from app.log.kafka.fetching import (
    OFFSET_OUT_OF_RANGE,
    answers,
    fetch_request,
    grouped_by_leader,
)
from app.log.kafka.reader import chunk_of, gap
from app.log.kafka.session import CHUNK_BYTES_MAX, Followed, Session

# What may wait for `chunks()`; beyond it no more is fetched.
BUFFER_BYTES_MAX: Final = 8 * 1024 * 1024

_RETRY_S: Final = 0.2
_CORRUPT_RETRY_S: Final = 5.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Arrivals:
    """What went over the wire since the last hand-over."""

    chunks: list[tuple[int, Chunk]] = field(default_factory=list)
    fetches: int = 0


class KafkaTail:
    """`Tail` for the asyncio loop. Names have the prefix."""

    def __init__(self, io: IoThread, poller: "Poller", stats: LogStats) -> None:
        self._io = io
        self._poller = poller
        self._stats = stats
        self._arrived = asyncio.Event()
        self._buffer: list[tuple[int, Chunk]] = []
        self._generations: dict[Partition, int] = {}
        self._next_generation = itertools.count()
        poller.deliver = self._take_in

    def follow(self, partition: Partition, offset: int) -> None:
        """As `Tail.follow`."""
        generation = next(self._next_generation)
        self._generations[partition] = generation
        self._io.post(lambda: self._poller.follow(Followed(partition, offset, generation)))

    def unfollow(self, partition: Partition) -> None:
        """As `Tail.unfollow`."""
        self._generations.pop(partition, None)
        self._io.post(lambda: self._poller.unfollow(partition))

    async def chunks(self) -> Sequence[Chunk]:
        """As `Tail.chunks`."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            taken, self._buffer = self._buffer, []
            self._io.post(partial(self._poller.drained, _size_of(taken)))
            # A chunk from before the partition was moved or let go is nobody's.
            wanted = [c for generation, c in taken if self._is_current(c.partition, generation)]
            if wanted:
                self._count(wanted)
                return wanted

    def _is_current(self, partition: Partition, generation: int) -> bool:
        return self._generations.get(partition) == generation

    def _count(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            self._stats.fetched_records += len(chunk.records)
            self._stats.fetched_bytes += chunk.size

    def _take_in(self, arrivals: _Arrivals) -> None:
        self._stats.fetches += arrivals.fetches
        self._buffer += arrivals.chunks
        self._arrived.set()


class Poller:
    """Fetches what is followed and hands it to `deliver` on the loop. On the I/O thread only."""

    def __init__(self, io: IoThread, client: Client, first_reads: Client) -> None:
        """`client` is the tail's own, closed with it; `first_reads` is shared and is not."""
        self.io = io
        self.client = client
        self._first_reads = first_reads
        self.deliver: Untyped = None
        self._followed: dict[Partition, Followed] = {}
        self._joining: dict[Partition, Followed] = {}
        self._placing = False
        self._sessions: dict[int, Session] = {}
        self._buffered = 0
        self._room: Future | None = None
        self._fetches = 0

    def follow(self, followed: Followed) -> None:
        """Read it from its offset on, and forget where it was read before."""
        self._leave_sessions(followed.partition)
        self._followed[followed.partition] = followed
        self._join(followed)

    def unfollow(self, partition: Partition) -> None:
        """Stop reading it."""
        self._leave_sessions(partition)
        self._followed.pop(partition, None)

    def close(self) -> None:
        """Stop everything; the loops end at their next step."""
        self.client.close()
        self._followed.clear()
        self._joining.clear()
        self._release_room()

    def is_current(self, followed: Followed) -> bool:
        """Whether it is still to be read from where it stands."""
        return self._followed.get(followed.partition) is followed

    def drained(self, size: int) -> None:
        """`size` bytes were taken out of the buffer."""
        self._buffered -= size
        if self._buffered < BUFFER_BYTES_MAX:
            self._release_room()

    async def room(self) -> None:
        """Wait until the buffer may take more."""
        while self._buffered >= BUFFER_BYTES_MAX and not self.client.closed:
            if self._room is None:
                self._room = Future()
            await self._room

    def again(self, followed: Collection[Followed], *, seconds: float = _RETRY_S) -> None:
        """Place them anew, with fresh leaders, after a pause."""
        self.client.forget({each.partition.topic for each in followed})
        self.io.net.call_later(seconds, lambda: self._join_all(followed))

    async def arrived(
        self, asked: Mapping[Partition, Followed], response: Untyped
    ) -> list[Followed]:
        """Hand over what a fetch brought and move on; returns those that it says are wrong here."""
        self._fetches += 1
        wrong: list[Followed] = []
        chunks: list[tuple[int, Chunk]] = []
        for partition, part in answers(response):
            followed = asked.get(partition)
            if followed is None or not self.is_current(followed):
                continue
            chunk = await self._chunk_of(followed, part, wrong)
            if chunk is not None and self.is_current(followed):
                followed.offset = chunk.next_offset
                chunks.append((followed.generation, chunk))
        self._hand_over(chunks)
        return wrong

    async def _chunk_of(
        self, followed: Followed, part: Untyped, wrong: list[Followed]
    ) -> Chunk | None:
        """What arrived of one partition, if it did; one that failed is added to `wrong`."""
        partition, offset = followed.partition, followed.offset
        try:
            if part.error_code == 0:
                chunk = chunk_of(partition, offset, part.records)
                return chunk if chunk.next_offset > offset else None
            if part.error_code == OFFSET_OUT_OF_RANGE:
                return await gap(self.io, self.client, partition, offset=offset)
        except LogUnavailableError:
            pass
        except CorruptBatchError as error:
            _log.error("kafka_batch_corrupt", partition=partition, offset=offset, error=str(error))
            self._leave_sessions(partition)
            self.again([followed], seconds=_CORRUPT_RETRY_S)
            return None
        wrong.append(followed)
        return None

    def _hand_over(self, chunks: list[tuple[int, Chunk]]) -> None:
        if not chunks:
            return
        self._buffered += _size_of(chunks)
        fetches, self._fetches = self._fetches, 0
        self.io.hand_over(self.deliver, _Arrivals(chunks, fetches))

    def _release_room(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.success(None)

    def _leave_sessions(self, partition: Partition) -> None:
        self._joining.pop(partition, None)
        for session in self._sessions.values():
            session.leave(partition)

    def _join_all(self, followed: Collection[Followed]) -> None:
        for each in followed:
            self._join(each)

    def _join(self, followed: Followed) -> None:
        if self.client.closed or not self.is_current(followed):
            return
        self._joining[followed.partition] = followed
        if not self._placing:
            self._placing = True
            self.io.net.call_soon(self._place)

    async def _place(self) -> None:
        """Find the leaders of those that join, and read each for the first time."""
        while self._joining:
            joining, self._joining = self._joining, {}
            try:
                led, homeless = await grouped_by_leader(self.client, list(joining))
            except Exception as error:  # noqa: BLE001 - whatever it was, they are read on
                self._interrupted(list(joining.values()), error)
                continue
            if homeless:
                self.again([joining[each] for each in homeless])
            for node, partitions in led.items():
                parts = [joining[each] for each in partitions]
                self.io.net.call_soon(lambda n=node, p=parts: self._read_first(n, p))
        self._placing = False

    async def _read_first(self, node: int, joining: list[Followed]) -> None:
        """One plain fetch that does not wait; then they are the session's."""
        await self.room()
        asked = {each.partition: each for each in joining if self.is_current(each)}
        positions = {partition: each.offset for partition, each in asked.items()}
        request = fetch_request(positions, bytes_max=CHUNK_BYTES_MAX, wait_ms=0)
        try:
            response = await self._first_reads.send(node, request)
            wrong = await self.arrived(asked, response)
        except Exception as error:  # noqa: BLE001 - whatever it was, they are read on
            self._interrupted(asked.values(), error)
            return
        if wrong:
            self.again(wrong)
        for misplaced in wrong:
            del asked[misplaced.partition]
        self._enter_session(node, [each for each in asked.values() if self.is_current(each)])

    def _interrupted(self, followed: Collection[Followed], error: Exception) -> None:
        if not isinstance(error, FAILED_TRY):
            _log.error("kafka_tail_failed", error=repr(error))
        self.again(followed)

    def _enter_session(self, node: int, members: list[Followed]) -> None:
        if not members or self.client.closed:
            return
        session = self._sessions.get(node)
        if session is None:
            session = self._sessions[node] = Session(self, node)
            self.io.net.call_soon(session.run)
        for each in members:
            session.enter(each)

    def session_ended(self, node: int) -> None:
        """The session's loop is over; the next member starts another."""
        self._sessions.pop(node, None)


def _size_of(chunks: Iterable[tuple[int, Chunk]]) -> int:
    return sum(chunk.size for _, chunk in chunks)
