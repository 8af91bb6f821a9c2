"""The reader of new records: one incremental fetch session (KIP-227) for each broker.

A partition is read from its leader. If the leader names a replica that is nearer to the rack, the
partition is read from this replica (KIP-392).

A newly followed partition is first read by a single fetch on another connection, so that a running
long poll does not delay the partition. After that the partition joins the session of its broker.
After an error of a partition or a broker, the leaders are looked up again, and the partitions start
with a single fetch again.
"""

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Self

import structlog

from app.domain.message import Partition
from app.log.interface import Chunk, LogStats
from app.log.kafka.fetch_requests import OFFSET_OUT_OF_RANGE, chunk_of
from app.log.kafka.partition_leaders import (
    AVOIDED_FOR_S,
    CHOSEN_FOR_S,
    LeaderCache,
    Led,
    ReadSource,
)
from app.log.kafka.partition_timers import PartitionTimers
from app.log.kafka.protocol.decoder import CorruptBatchError
from app.log.kafka.protocol.fetches import NO_REPLICA, FetchedPart, FetchRequest
from app.log.kafka.reader import FAILED_FETCH, KafkaReader
from app.log.kafka.session import CHUNK_BYTES_MAX, Followed, Session

# The maximum size of all chunks that `chunks()` has not returned yet. From this size on, nothing
# more is fetched.
BUFFER_BYTES_MAX: Final = 8 * 1024 * 1024

_RETRY_S: Final = 0.2
_CORRUPT_RETRY_S: Final = 5.0

_log = structlog.get_logger(__name__)


class KafkaTail(AbstractAsyncContextManager["KafkaTail"]):
    """Implements `Tail`. Use it within its `async with` block, on the event loop of this block.

    Names include the namespace.
    """

    def __init__(self, leader_cache: LeaderCache, reader: KafkaReader, stats: LogStats) -> None:
        """Create the tail.

        `reader` also works for other callers. It does the first fetch of each partition, so that no
        long poll delays this fetch.
        """
        self.polls = reader.another_fetcher()
        self._leader_cache = leader_cache
        self._reader = reader
        self._stats = stats
        self._tasks = asyncio.TaskGroup()
        self._running: set[asyncio.Task[None]] = set()
        self._followed: dict[Partition, Followed] = {}
        self._joining: dict[Partition, Followed] = {}
        self._distributing = False
        self._sessions: dict[ReadSource, Session] = {}
        # When these end, the leader of the partition chooses the replica to read again (KIP-392).
        self._choices = PartitionTimers(self._choose_again)
        # When these end, a partition that could not be read is tried again.
        self._retries = PartitionTimers(self._join)
        self._arrived = asyncio.Event()
        self._buffer: list[tuple[Followed, Chunk]] = []
        self._buffered = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.polls.close()
        self._choices.close()
        self._retries.close()
        self._followed.clear()
        for task in self._running:
            task.cancel()
        await self._tasks.__aexit__(kind, error, traceback)

    def follow(self, partition: Partition, offset: int) -> None:
        """Read `partition` from `offset` on."""
        self._choices.stop(partition)
        self._leave_sessions(partition)
        self._followed[partition] = followed = Followed(partition, offset)
        self._join(followed)

    def unfollow(self, partition: Partition) -> None:
        """Stop reading the partition.

        A chunk that was requested before may still come.
        """
        self._choices.stop(partition)
        self._retries.stop(partition)
        self._leave_sessions(partition)
        self._followed.pop(partition, None)

    async def chunks(self) -> Sequence[Chunk]:
        """Wait for records, and return at least one chunk."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            taken, self._buffer = self._buffer, []
            self._buffered = 0
            self._has_room.set()
            # Ignore a chunk if its partition is no longer followed, or if the partition has been
            # restarted at another offset after the chunk was read.
            if wanted := [chunk for followed, chunk in taken if self._is_current(followed)]:
                self._count(wanted)
                return wanted

    # ---- called by sessions (SessionOwner) ------------------------------------------------------

    async def room(self) -> None:
        """Wait until there is space in the buffer for more records."""
        await self._has_room.wait()

    def again(
        self,
        followed: Collection[Followed],
        source: ReadSource | None = None,
        *,
        seconds: float = _RETRY_S,
    ) -> None:
        """Look up the leaders of these partitions again, because `source` cannot serve them.

        `source` is a broker; None if no broker was asked. The look-up starts after `seconds`.
        """
        if source is not None and not source.is_leader:
            self._reader.replicas.avoid([each.partition for each in followed])
            for each in filter(self._is_current, followed):
                self._choices.start(each, AVOIDED_FOR_S)
        self._leader_cache.forget({each.partition.topic for each in followed})
        for each in filter(self._is_current, followed):
            self._retries.start(each, seconds)

    async def arrived(
        self,
        requested: Mapping[Partition, Followed],
        parts: Iterable[FetchedPart],
        source: ReadSource,
    ) -> list[Followed]:
        """Put the records of a response into the buffer, for `chunks`.

        Returns:
            The partitions that this broker cannot serve.
        """
        self._stats.fetches += 1
        wrong: list[Followed] = []
        for part in parts:
            followed = requested.get(part.partition)
            if followed is None or not self._is_current(followed):
                continue
            if source.by_rack and part.replica != NO_REPLICA:
                self._read_replica(followed, part.replica)
                continue
            chunk = await self._chunk_of(followed, part, wrong, source=source)
            # Check again whether the chunk is wanted. While a large chunk was decoded, its
            # partition may have been followed from another offset, or read from another broker.
            if chunk is not None and self._is_current(followed) and chunk.offset == followed.offset:
                followed.offset = chunk.next_offset
                self._hand_over(followed, chunk)
        return wrong

    def session_ended(self, source: ReadSource) -> None:
        """Called when the session at the broker `source` has ended.

        The next partition that is read from this broker starts another session.
        """
        self._sessions.pop(source, None)

    # ---- chunks that arrive ---------------------------------------------------------------------

    async def _chunk_of(
        self, followed: Followed, part: FetchedPart, wrong: list[Followed], *, source: ReadSource
    ) -> Chunk | None:
        """Return the chunk of one fetched partition, if there is one.

        A partition that cannot be read from this broker is added to `wrong`.
        """
        partition, offset = followed.partition, followed.offset
        try:
            if part.error_code == 0:
                chunk = await chunk_of(part, offset)
                return chunk if chunk.next_offset > offset else None
            # Only the leader can tell that the log no longer has an offset. Another replica may
            # only be missing the newest records.
            if part.error_code == OFFSET_OUT_OF_RANGE and source.is_leader:
                return await self._reader.gap(partition, offset)
        except FAILED_FETCH:
            pass
        except CorruptBatchError as error:
            _log.error("kafka_batch_corrupt", partition=partition, offset=offset, error=str(error))
            if self._is_current(followed):
                self._leave_sessions(partition)
                self.again([followed], source, seconds=_CORRUPT_RETRY_S)
                corrupt = Chunk(partition, offset, offset, (), 0, corrupt=str(error))
                self._hand_over(followed, corrupt)
            return None
        wrong.append(followed)
        return None

    def _hand_over(self, followed: Followed, chunk: Chunk) -> None:
        self._buffer.append((followed, chunk))
        self._arrived.set()
        self._buffered += chunk.size
        if self._buffered >= BUFFER_BYTES_MAX:
            self._has_room.clear()

    def _count(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            self._stats.fetched_records += len(chunk.records)
            self._stats.fetched_bytes += chunk.size

    # ---- partitions that are followed -----------------------------------------------------------

    def _is_current(self, followed: Followed) -> bool:
        """Whether `followed` is the newest object for its partition, which is still followed."""
        return self._followed.get(followed.partition) is followed

    def _leave_sessions(self, partition: Partition) -> None:
        self._joining.pop(partition, None)
        for session in self._sessions.values():
            session.leave(partition)

    def _read_replica(self, followed: Followed, node: int) -> None:
        """Read a partition from the replica `node`, which the partition's leader named.

        After some time, the leader is asked for a replica again.
        """
        self._reader.replicas.choose(followed.partition, node)
        self._choices.start(followed, CHOSEN_FOR_S)
        self._leave_sessions(followed.partition)
        self._join(followed)

    def _choose_again(self, followed: Followed) -> None:
        """Let the partition's leader choose a replica again.

        The leader is looked up first, because another broker may be the leader now. The replica
        that is read does not report a new leader.
        """
        if self._is_current(followed):
            self._reader.replicas.forget(followed.partition)
            self._leader_cache.forget([followed.partition.topic])
            self._leave_sessions(followed.partition)
            self._join(followed)

    def _join(self, followed: Followed) -> None:
        if self.polls.closed or not self._is_current(followed):
            return
        self._retries.stop(followed.partition)
        self._joining[followed.partition] = followed
        if not self._distributing:
            self._distributing = True
            self._start(self._distribute())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _distribute(self) -> None:
        """Find the leaders of new partitions, and read each new partition for the first time."""
        while self._joining:
            joining, self._joining = self._joining, {}
            try:
                led, homeless = await self._leader_cache.grouped(list(joining))
            except Exception as error:  # noqa: BLE001 - reading continues after any error
                self._interrupted(list(joining.values()), error)
                continue
            if homeless:
                self.again([joining[each] for each in homeless])
            for source, partitions in self._by_source(led).items():
                self._start(self._read_first(source, [joining[each] for each in partitions]))
        self._distributing = False

    def _by_source(self, led: Led) -> Mapping[ReadSource, Sequence[Partition]]:
        found: dict[ReadSource, list[Partition]] = {}
        for leader, partitions in led.items():
            for each in partitions:
                found.setdefault(self._reader.replicas.source(each, leader), []).append(each)
        return found

    async def _read_first(self, source: ReadSource, joining: list[Followed]) -> None:
        """Fetch the records of these partitions once, without a wait at the broker.

        From then on, the broker's session reads the partitions.
        """
        await self.room()
        requested = {each.partition: each for each in joining if self._is_current(each)}
        positions = {partition: each.offset for partition, each in requested.items()}
        request = FetchRequest(positions=positions, bytes_max=CHUNK_BYTES_MAX, wait_ms=0)
        try:
            answer = await self._reader.fetcher.fetch(source, request)
            wrong = await self.arrived(requested, answer.parts, source)
        except Exception as error:  # noqa: BLE001 - reading continues after any error
            self._interrupted(requested.values(), error, source)
            return
        if wrong:
            self.again(wrong, source)
        if source.by_rack:
            for part in answer.parts:
                if part.replica != NO_REPLICA:
                    requested.pop(part.partition, None)
        # Leave out the partitions that wait for their next try. In the session, their next poll
        # would fail, too.
        self._enter_session(
            source,
            [
                each
                for partition, each in requested.items()
                if self._is_current(each) and not self._retries.runs(partition)
            ],
        )

    def _interrupted(
        self, followed: Collection[Followed], error: Exception, source: ReadSource | None = None
    ) -> None:
        if self.polls.closed:
            return
        if not isinstance(error, FAILED_FETCH):
            _log.error("kafka_tail_failed", error=repr(error))
        self.again(followed, source)

    def _enter_session(self, source: ReadSource, members: list[Followed]) -> None:
        if not members or self.polls.closed:
            return
        session = self._sessions.get(source)
        if session is None:
            session = self._sessions[source] = Session(self, source)
            self._start(session.run())
        for each in members:
            # Remove the partition from all sessions first, because another first read may have
            # added the partition meanwhile.
            self._leave_sessions(each.partition)
            session.enter(each)
            if self._reader.replicas.in_rack and not self._choices.runs(each.partition):
                self._choices.start(each, CHOSEN_FOR_S)
