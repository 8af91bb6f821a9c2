"""Reads older chunks for cursors that are behind the cache of the newest chunks.

The cursors are served one after another, and each chunk is read only once.
"""

import asyncio
from collections import OrderedDict
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.errors import AngeliaError, LogUnreadableError
from app.domain.message import Partition
from app.log.interface import Chunk, MessageLog
from app.schemas.formats import TopicFormats
from workers.reading.codecs_ready import CodecsReady
from workers.reading.decoder import Decoder
from workers.reading.feed import Batch
from workers.reading.holds import Holds, decodable
from workers.reading.look_pauses import longer
from workers.reading.schema_versions import VersionWait

# The size of a chunk. It is small, because the decoding of a chunk blocks all other work of the
# worker.
CHUNK_BYTES: Final = 256 << 10
# The number of chunks that are read at the same time.
READERS: Final = 2
# The maximum number of cached chunks.
KEPT_CHUNKS: Final = 32
RETRY_PAUSE: Final = timedelta(seconds=1)


class BatchListener(Protocol):
    """Receives a decoded chunk that was read from the log.

    `gap` means that the log does not have the requested offset any more, and continues at the
    chunk's `next_offset`.
    """

    def __call__(self, batch: Batch, gap: bool, /) -> None:  # noqa: FBT001 - called by position, as a callback
        """Receive the decoded chunk `batch`."""


class _ChunkRequest:
    """The listeners that wait for one chunk, and the pause before another read if a read failed."""

    __slots__ = ("pause", "waiting")

    def __init__(self, pause: timedelta) -> None:
        self.pause = pause
        self.waiting: list[BatchListener] = []


_log = structlog.get_logger()


class CatchUp:
    """A queue of requested chunks. A chunk is in the queue once, for all its listeners.

    A cursor requests at most one chunk at a time. So the queue has at most one entry for each
    lagging cursor, and all cursors are served one after another.
    """

    def __init__(
        self,
        log: MessageLog,
        formats: TopicFormats | None = None,
        versions: VersionWait | None = None,
        *,
        codecs: CodecsReady | None = None,
        holds: Holds | None = None,
        retry_pause: timedelta = RETRY_PAUSE,
    ) -> None:
        self._log = log
        self._holds = holds or Holds()
        self._decoder = Decoder(formats or TopicFormats(), versions or VersionWait(), codecs)
        self._retry_pause = retry_pause
        self._wanted: dict[tuple[Partition, int], _ChunkRequest] = {}
        self._queue: asyncio.Queue[tuple[Partition, int]] = asyncio.Queue()
        self._kept: OrderedDict[tuple[Partition, int], Batch] = OrderedDict()

    def fetch(
        self,
        partition: Partition,
        offset: int,
        on_batch: BatchListener,
        *,
        pause: timedelta | None = None,
    ) -> None:
        """Read a chunk from `offset` on, and then call `on_batch` with its decoded messages.

        `pause` is the delay before another read if the read fails or finds nothing.
        """
        pause = self._retry_pause if pause is None else pause
        request = self._wanted.get((partition, offset))
        if request is None:
            request = self._wanted[partition, offset] = _ChunkRequest(pause)
            self._queue.put_nowait((partition, offset))
        request.pause = min(request.pause, pause)
        request.waiting.append(on_batch)

    def forget(self, partition: Partition) -> None:
        """Forget requests and chunks of the partition, because no cursor reads it any more.

        Its topic may be recreated later, with other messages.
        """
        for wanted in [key for key in self._wanted if key[0] == partition]:
            del self._wanted[wanted]
        self._drop_kept(partition)

    def rewind(self, partition: Partition, end: int) -> None:
        """Drop requests beyond `end`, and all chunks of the partition: its log now ends at `end`.

        The topic was recreated, or the partition's new leader has fewer messages. The readers
        beyond `end` are set back, and request other offsets.
        """
        for wanted in [key for key in self._wanted if key[0] == partition and key[1] > end]:
            del self._wanted[wanted]
            self._holds.end(*wanted)
        self._drop_kept(partition)

    async def run(self) -> None:
        """Read the requested chunks until cancelled."""
        async with asyncio.TaskGroup() as readers:
            for _ in range(READERS):
                readers.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            partition, offset = await self._queue.get()
            request = self._wanted.get((partition, offset))
            if request is None:
                continue  # skip it: the partition was forgotten during the read
            batch = self._recall(partition, offset)
            if batch is not None:
                self._feed(partition, offset, batch, gap=False)
                continue
            try:
                chunk = await self._log.fetch(partition, offset, bytes_max=CHUNK_BYTES)
            except AngeliaError as exc:
                if isinstance(exc, LogUnreadableError) and (partition, offset) in self._wanted:
                    self._holds.begin(partition, offset, decodable(offset, exc.message))
                self._ask_again(partition, offset, exc.message)
            else:
                if self._wanted.get((partition, offset)) is request:
                    self._take(offset, chunk)

    def _take(self, offset: int, chunk: Chunk) -> None:
        batch = self._decoder.batch(chunk)
        if batch is None:
            request = self._wanted[chunk.partition, offset]
            request.pause = longer(request.pause)
            self._holds.begin(chunk.partition, offset, self._decoder.awaited)
            self._ask_again(chunk.partition, offset, f"waits for {self._decoder.awaited}")
        elif chunk.next_offset == offset:
            # Read the chunk again later. The tail has read these messages from the old leader of
            # the partition, and the new leader does not have them yet.
            self._ask_again(chunk.partition, offset, "there is nothing yet")
        else:
            if chunk.next_offset < offset:
                # The log has become shorter. Drop the partition's cached chunks, because other
                # messages will get the same offsets.
                self._drop_kept(chunk.partition)
            self._keep(chunk, batch)
            self._feed(chunk.partition, offset, batch, gap=chunk.gap)

    def _feed(self, partition: Partition, offset: int, batch: Batch, *, gap: bool) -> None:
        self._holds.end(partition, offset)
        for on_batch in self._wanted.pop((partition, offset)).waiting:
            on_batch(batch, gap)

    def _ask_again(self, partition: Partition, offset: int, error: str) -> None:
        """Put the request at the end of the queue after a pause. Other chunks are read before it.

        Other partitions have other brokers, which may respond.
        """
        request = self._wanted.get((partition, offset))
        pause = (request.pause if request else self._retry_pause).total_seconds()
        _log.warning("catch_up_read_failed", partition=partition, error=error, pause_s=pause)
        asyncio.get_running_loop().call_later(pause, self._queue.put_nowait, (partition, offset))

    def _recall(self, partition: Partition, offset: int) -> Batch | None:
        for key, batch in self._kept.items():
            if key[0] == partition and batch.offset <= offset < batch.next_offset:
                self._kept.move_to_end(key)
                return batch
        return None

    def _drop_kept(self, partition: Partition) -> None:
        for kept in [key for key in self._kept if key[0] == partition]:
            del self._kept[kept]

    def _keep(self, chunk: Chunk, batch: Batch) -> None:
        if batch.messages:
            self._kept[chunk.partition, chunk.offset] = batch
        if len(self._kept) > KEPT_CHUNKS:
            self._kept.popitem(last=False)
