"""Copies messages of one topic to another, each once, in Spark tasks, partition by partition.

After each append, the progress is stored in the database. When a task starts, it first reads from
the target topic which messages were appended after the stored progress. So a task that runs again
after a failure publishes only the missing messages, and nothing twice.
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, groupby
from typing import Any, Final

from app.domain.catalogue.topic import Topic
from app.domain.errors import LogUnavailableError
from app.domain.job import Claim
from app.domain.message import NewRecord, Partition, Record
from app.domain.replay.republishing import offset_marked
from app.log.factory import LogLocation, log_at
from app.log.interface import MessageLog
from app.schemas.conversion import Fitting, RefusedValue
from app.storage.spark.republishing_parts import OfflinePart, PartProgress, part_taken

# The longest duration of an append. A publisher that takes over a partition first waits up to this
# long, because an append of its predecessor may still be running.
APPEND_MAX: Final = timedelta(seconds=10)
BATCH_MAX: Final = 500
BATCH_BYTES_MAX: Final = 1024 * 1024
READ_BACK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Republishing:
    """The function that each Spark task calls with its rows (columns `MESSAGES`) to publish them.

    The messages of each partition are published in order.

    Attributes:
        database_url: The URL of the database, in psycopg's form.
        log: Where the log is.
        claim: The claim of the job.
        source: The topic that the messages come from.
        target: The topic to which the messages are published.
    """

    database_url: str
    log: LogLocation
    claim: Claim
    source: Topic
    target: Topic

    def __call__(self, rows: Iterable[Sequence[Any]]) -> None:
        """Publish the messages in these rows.

        Raises:
            PartLostError: The job is cancelled, or another Spark task publishes the partition now.
            UnavailableError: The log or the database cannot be reached.
            TopicNotFoundError: The target topic does not exist.
        """
        rest = iter(rows)
        # Open the log only if the task has rows.
        if (first := next(rest, None)) is not None:
            asyncio.run(self._republished(chain([first], rest)))

    async def _republished(self, rows: Iterator[Sequence[Any]]) -> None:
        fitting = Fitting(self.source, self.target, task_id=self.claim.job_id)
        async with log_at(self.database_url, self.log) as log:
            for index, found in groupby(rows, key=_partition_of):
                with part_taken(self.database_url, self.claim, index) as part:
                    feed = PartitionRepublisher(log, part, fitting, task_id=self.claim.job_id)
                    await feed.run(self.target.name, map(_record_of, found))


class PartitionRepublisher:
    """Publishes the messages of one partition of the source topic, after the stored progress."""

    def __init__(
        self, log: MessageLog, part: OfflinePart, fitting: Fitting, *, task_id: str
    ) -> None:
        self._log = log
        self._part = part
        self._fitting = fitting
        self._task_id = task_id

    async def run(self, target: str, records: Iterable[Record]) -> None:
        """Publish the records to the topic `target`. The records are in the order of their offsets.

        Raises:
            PartLostError: The job is cancelled, or another Spark task publishes the partition now.
            UnavailableError: The log or the database cannot be reached.
        """
        # Wait until an append of the previous publisher cannot reach the log any more.
        await asyncio.sleep(self._part.wait.total_seconds())
        known = await self._read_back(target)
        progress = PartProgress(self._part.position)
        left = (each for each in records if each.offset >= self._part.position)
        for batch in batches(left):
            # Store the ends of the target's partitions before each append. If this task dies, the
            # next one looks for appended messages after these ends.
            await self._report(target, progress, appending=APPEND_MAX)
            progress = await self._published(target, batch, known)
        await self._report(target, progress)

    async def _report(
        self, target: str, progress: PartProgress, *, appending: timedelta | None = None
    ) -> None:
        ends = await self._ends(target)
        self._part.report(progress, ends, appending=appending)

    async def _published(
        self, target: str, batch: Sequence[Record], known: Collection[int]
    ) -> PartProgress:
        """Append those records of `batch` to the topic `target` that are not published yet.

        `known` has the source offsets of the records that are published already. Return the
        progress after the append.
        """
        index, now_ms = self._part.partition, time.time_ns() // 1_000_000
        fitted = [(each.offset, self._fitting.fit(each, index, now_ms=now_ms)) for each in batch]
        records = {at: each for at, each in fitted if isinstance(each, NewRecord)}
        refused = [(at, each) for at, each in fitted if isinstance(each, RefusedValue)]
        await self._append(target, [each for at, each in records.items() if at not in known])
        problem = next((f"{index}/{at}: {each.problem}" for at, each in refused), None)
        return PartProgress(
            position=batch[-1].offset + 1,
            written=len(records),
            size=sum(len(each.value) for each in records.values()),
            refused=len(refused),
            problem=problem,
        )

    async def _append(self, target: str, records: Sequence[NewRecord]) -> None:
        if not records:
            return
        try:
            async with asyncio.timeout(APPEND_MAX.total_seconds()):
                await self._log.append(target, records)
        except TimeoutError as exc:
            raise LogUnavailableError("The log did not acknowledge an append in time") from exc

    async def _read_back(self, target: str) -> Collection[int]:
        """Return the source offsets of messages that were appended after the stored progress.

        The appended messages are read from the topic `target`.
        """
        ends = await self._ends(target)
        found: set[int] = set()
        for index, end in ends.items():
            first = self._part.ends.get(index, 0)
            found.update(await self._read_back_from(Partition(target, index), first, end))
        return found

    async def _read_back_from(self, partition: Partition, offset: int, end: int) -> list[int]:
        found = []
        while offset < end:
            chunk = await self._log.fetch(partition, offset, bytes_max=READ_BACK_BYTES)
            for record in chunk.records:
                at = offset_marked(record, self._task_id, self._part.partition)
                if at is not None:
                    found.append(at)
            offset = max(chunk.next_offset, offset + 1)
        return found

    async def _ends(self, target: str) -> Mapping[int, int]:
        partitions = await self._log.partitions(target)
        bounds = await self._log.bounds(partitions)
        if len(bounds) < len(partitions):
            raise LogUnavailableError(f"The log does not say where {target} ends")
        return {partition.index: each.end for partition, each in bounds.items()}


def batches(records: Iterable[Record]) -> Iterator[Sequence[Record]]:
    """Yield the records in groups, in order.

    A group ends when it has BATCH_MAX records, or at least BATCH_BYTES_MAX bytes.
    """
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.value or b"")
        if len(batch) >= BATCH_MAX or size >= BATCH_BYTES_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _partition_of(row: Sequence[Any]) -> int:
    index: int = row[0]
    return index


def _record_of(row: Sequence[Any]) -> Record:
    _, offset, timestamp_ms, key, value, headers, _ = row
    pairs = [(each["key"].encode(), bytes(each["value"] or b"")) for each in headers or ()]
    return Record(offset, timestamp_ms, _bytes(key), _bytes(value), pairs)


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
