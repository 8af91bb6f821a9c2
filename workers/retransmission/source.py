"""The chosen messages of a retransmission, read in order."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from app.domain.discards.redrive import redrive_record
from app.domain.message import NewRecord, Partition, Record
from app.domain.replay.retransmission import HEADER_SOURCE, MessageRun, sent_again
from app.domain.replay.sending_rate import Sending
from app.log.interface import Chunk, MessageLog
from workers.retransmission.store import RetransmissionStore

RUNS_MAX: Final = 500
CHUNK_BYTES_MAX: Final = 1024 * 1024
# If a chosen message has no chosen message directly after it, and the next one is at least this
# many offsets away, the message is fetched in a small chunk (_SPARSE_BYTES_MAX).
_NEAR: Final = 200
_SPARSE_BYTES_MAX: Final = 64 * 1024


class ChosenMessage(NamedTuple):
    """A message to append, and the position at which it was published."""

    partition: int
    offset: int
    record: NewRecord


class ChosenMessages:
    """Reads the chosen messages of each partition in order.

    Each call of `next` returns messages of one partition, and the next call those of another, if
    there is one.

    `positions` has the offset at which to start in each partition. A message is read from the log,
    the archive or the table of undelivered messages. It is skipped if it has been deleted there.
    """

    def __init__(
        self,
        log: MessageLog,
        store: RetransmissionStore,
        sending: Sending,
        *,
        positions: Mapping[int, int],
    ) -> None:
        self._log = log
        self._store = store
        self._sending = sending
        self._positions = dict(positions)
        self._turns = deque(sorted(positions))
        self._runs: dict[int, deque[MessageRun]] = {}
        self._chunks: dict[int, Chunk] = {}

    async def next(self, at_most: int) -> Sequence[ChosenMessage]:
        """Return up to `at_most` messages of one partition; none if all messages were returned.

        Raises:
            LogUnavailableError: The log cannot be read.
            TopicNotFoundError: The topic does not exist.
            StorageUnavailableError: The database cannot be reached.
        """
        while self._turns:
            partition = self._turns[0]
            if not await self._has_runs(partition):
                self._turns.popleft()
                self._chunks.pop(partition, None)
                continue
            chosen = await self._picked(partition, at_most)
            if chosen:
                self._turns.rotate(-1)
                return chosen
        return ()

    async def _has_runs(self, partition: int) -> bool:
        known = self._runs.setdefault(partition, deque())
        while known and known[0].end <= self._positions[partition]:
            known.popleft()
        if not known:
            position = self._positions[partition]
            known.extend(await self._store.runs(self._sending, partition, position, limit=RUNS_MAX))
        return bool(known)

    async def _picked(self, partition: int, at_most: int) -> Sequence[ChosenMessage]:
        run = self._runs[partition][0]
        if run.undelivered is not None:
            return await self._from_discards(partition, at_most)
        if run.archived:
            return await self._from_archive(run, at_most)
        return await self._from_log(run, at_most)

    async def _from_discards(self, partition: int, at_most: int) -> Sequence[ChosenMessage]:
        runs = list(takewhile(lambda run: run.undelivered is not None, self._runs[partition]))
        runs = runs[:at_most]
        discards = await self._store.discards([run.undelivered or 0 for run in runs])
        self._positions[partition] = runs[-1].end
        record_target, now_ms = self._sending.record_target, time.time_ns() // 1_000_000
        chosen = []
        for run in runs:
            if (discard := discards.get(run.undelivered or 0)) is not None:
                record = redrive_record(discard, record_target, now_ms=now_ms)
                record.headers += ((HEADER_SOURCE, b"%d/%d" % (partition, run.start)),)
                chosen.append(ChosenMessage(partition, run.start, record))
        return chosen

    async def _from_archive(self, run: MessageRun, at_most: int) -> Sequence[ChosenMessage]:
        first = max(run.start, self._positions[run.partition])
        found = await self._store.archived(self._sending, run, first=first, limit=at_most)
        self._positions[run.partition] = found[-1].offset + 1 if found else run.end
        return [self._pick(run.partition, record) for record in found]

    async def _from_log(self, run: MessageRun, at_most: int) -> Sequence[ChosenMessage]:
        first = max(run.start, self._positions[run.partition])
        chunk = await self._chunk(run, first)
        found = [each for each in chunk.records if first <= each.offset < run.end][:at_most]
        cut = len(found) == at_most
        self._positions[run.partition] = (
            found[-1].offset + 1 if cut else max(first + 1, min(chunk.next_offset, run.end))
        )
        return [self._pick(run.partition, record) for record in found]

    async def _chunk(self, run: MessageRun, first: int) -> Chunk:
        known = self._chunks.get(run.partition)
        if known is not None and known.offset <= first < known.next_offset:
            return known
        runs = self._runs[run.partition]
        near = len(runs) > 1 and runs[1].start - run.end < _NEAR
        dense = near or run.end - run.start > 1
        chunk = await self._log.fetch(
            Partition(self._sending.topic, run.partition),
            first,
            bytes_max=CHUNK_BYTES_MAX if dense else _SPARSE_BYTES_MAX,
        )
        self._chunks[run.partition] = chunk
        return chunk

    def _pick(self, partition: int, record: Record) -> ChosenMessage:
        source = Partition(self._sending.topic, partition)
        now_ms = time.time_ns() // 1_000_000
        again = sent_again(record, source, self._sending.record_target, now_ms=now_ms)
        return ChosenMessage(partition, record.offset, again)
