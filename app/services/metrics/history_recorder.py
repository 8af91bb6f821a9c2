"""Records the history of metrics, once a minute.

The metrics of a minute are the difference between two counts: the counts since the creation of a
subscription, which workers report, and the counts that are already recorded. One transaction reads
both counts, and stores the minute and the new recorded counts. So each message counts exactly once,
even if a process dies.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

import structlog

from app.domain.errors import UnavailableError
from app.domain.message import Partition
from app.domain.metrics.packing import packed, sealed, unpacked
from app.domain.metrics.samples import MetricsSample, merged
from app.domain.metrics.steps import Step
from app.log.interface import MessageLog
from app.services.metrics.history_minutes import (
    UnrecordedMinute,
    minute_of_subscription,
    minute_of_topic,
)
from app.services.metrics.resources import REPORTED_WITHIN
from app.storage.catalogue.metrics import MetricRepository
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database, Session
from app.storage.health.history_partitions import HistoryPartitions, oldest_kept
from app.storage.health.history_recording import (
    HistoryRecording,
    HistoryRow,
    LifetimeCounts,
    Recorded,
    RecordedSubscription,
    RecordedTopic,
    ReportedLoad,
)
from app.storage.runtime.leases import LeaseRepository
from app.storage.slices import made_of

# How often the recorder of the history checks whether a minute has ended.
LOOK_EVERY: Final = timedelta(seconds=1)
# A minute is recorded this long after its end. Workers report every second, so their reports about
# the minute are stored by then.
SETTLE: Final = timedelta(seconds=2)
LEASE: Final = "metrics_history"
# How long the lease of the recording process is valid. This is longer than a minute, so that the
# same process records the next minute.
LEASE_LENGTH: Final = timedelta(seconds=90)
# How long the recorder waits for the log to return the ends of partitions. After this time, the
# ends in the workers' last reports are used.
ENDS_WITHIN: Final = timedelta(seconds=5)
# About this many topics and subscriptions are recorded in one transaction.
AT_ONCE: Final = 500

_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)

_log = structlog.get_logger(__name__)

# A function that stores new histories of topics or of subscriptions. Its arguments are the topics'
# names or the subscriptions' ids, and the hour in which the histories begin. It returns the ids of
# the histories.
_Add = Callable[[Sequence[str], datetime], Awaitable[Mapping[str, int]]]


def _now() -> datetime:
    return datetime.now(UTC)


class HistoryRecorder:
    """Records the history while its process holds the lease; otherwise tries to take the lease."""

    def __init__(
        self, database: Database, log: MessageLog, *, clock: Callable[[], datetime] = _now
    ) -> None:
        self._database = database
        self._log = log
        self._clock = clock
        self._holder = uuid4().hex
        self._recorded = self._last_minute()

    async def look(self) -> None:
        """Record the last ended minute, unless this process has already tried to record it.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        minute = self._last_minute()
        if minute != self._recorded:
            self._recorded = minute
            await self.record(minute)

    async def record(self, minute: datetime) -> None:
        """Record everything since the last recorded minute as the metrics of `minute`.

        This does nothing while another process holds the lease.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        async with self._database.transaction() as session:
            if not await self._take(session):
                return
            await HistoryPartitions(session).make(minute)
            partitions = await MetricRepository(session).partitions()
            subscriptions = await SubscriptionRepository(session).counts()
        ends = await self._ends(partitions)
        for topics in _slices(sorted(partitions), subscriptions):
            async with self._database.transaction() as session:
                # Renew the lease in this transaction. This locks the lease until the commit, so no
                # other process stores the same minute.
                if not await self._take(session):
                    return
                await _Slice(HistoryRecording(session), minute, ends).record(topics)

    async def _take(self, session: Session) -> bool:
        return await LeaseRepository(session).take(LEASE, self._holder, LEASE_LENGTH)

    def _last_minute(self) -> datetime:
        return Step.MINUTE.start_of(self._clock() - SETTLE) - _MINUTE

    async def _ends(self, topics: Mapping[str, int]) -> Mapping[Partition, int]:
        partitions = [
            Partition(name, each) for name, count in topics.items() for each in range(count)
        ]
        if not partitions:
            return {}
        try:
            async with asyncio.timeout(ENDS_WITHIN.total_seconds()):
                bounds = await self._log.bounds(partitions)
        except (TimeoutError, UnavailableError) as error:
            _log.warning("history_without_log", reason=type(error).__name__)
            return {}
        return {partition: each.end for partition, each in bounds.items()}


class _Slice:
    """Records the metrics of a minute for some topics and all their subscriptions.

    This is done in one transaction.
    """

    def __init__(
        self, recording: HistoryRecording, minute: datetime, ends: Mapping[Partition, int]
    ) -> None:
        self._recording = recording
        self._minute = minute
        self._hour = Step.HOUR.start_of(minute)
        self._ends = ends

    async def record(self, names: Sequence[str]) -> None:
        """Record the minute for the topics with these names, if the topics still exist."""
        topics = await self._recording.topics(names, self._hour)
        subscriptions = await self._subscriptions(topics)
        samples: dict[str, list[MetricsSample]] = {}
        for known, minute in subscriptions:
            samples.setdefault(known.topic, []).append(minute.sample)
        of_topics = [
            minute_of_topic(each, samples.get(each.name, ()), self._published(each))
            for each in topics
        ]
        of_subscriptions = [minute for _, minute in subscriptions]
        await self._store(of_topics, self._recording.add_topics)
        await self._store(of_subscriptions, self._recording.add_subscriptions)

    async def _subscriptions(
        self, topics: Sequence[RecordedTopic]
    ) -> list[tuple[RecordedSubscription, UnrecordedMinute]]:
        known = await self._recording.subscriptions([each.name for each in topics], self._hour)
        if not known:
            return []
        ids = [each.id for each in known]
        ends = {
            partition: self._ends[partition]
            for each in topics
            for partition in self._partitions(each)
        }
        counted = await self._recording.counted(ids, ends)
        reported = await self._recording.reported(ids, REPORTED_WITHIN)

        def minute(of: RecordedSubscription) -> tuple[RecordedSubscription, UnrecordedMinute]:
            counts, attempts = (
                counted.get(of.id, LifetimeCounts()),
                reported.get(of.id, ReportedLoad()),
            )
            return of, minute_of_subscription(of, counts, attempts)

        return await made_of(known, minute)

    def _partitions(self, topic: RecordedTopic) -> Iterator[Partition]:
        """Yield those partitions of the topic whose ends are known."""
        partitions = (Partition(topic.name, index) for index in range(topic.partitions))
        return (partition for partition in partitions if partition in self._ends)

    def _published(self, topic: RecordedTopic) -> int | None:
        ends = [self._ends[partition] for partition in self._partitions(topic)]
        return sum(ends) if len(ends) == topic.partitions else None

    async def _store(self, minutes: Sequence[UnrecordedMinute], add: _Add) -> None:
        changed = [each for each in minutes if each.has_changes or each.before != each.after]
        new = [each.key for each in changed if each.before.id is None]
        ids = await add(new, self._hour) if new else {}
        stored = [
            (each.before.id or ids[each.key], each)
            for each in changed
            if each.before.id is not None or each.key in ids
        ]
        rows = await made_of(stored, lambda of: list(self._ended_hour(*of)))
        await self._recording.append([row for each in rows for row in each])
        await self._recording.write([self._with_minute(*of) for of in stored])

    def _with_minute(self, number: int, of: UnrecordedMinute) -> Recorded:
        hour = max(self._hour, of.before.hour)
        index = max(0, (self._minute - hour) // _MINUTE)
        minute = packed(index, of.sample) if of.has_changes else b""
        return replace(of.after, id=number, hour=hour, minutes=minute)

    def _ended_hour(self, number: int, of: UnrecordedMinute) -> Iterator[HistoryRow]:
        """Yield the table rows for the hour whose minutes are recorded, if this hour has ended."""
        if not of.before.minutes:
            return
        # Skip rows that are so old that they will be deleted within the next hour.
        now, hour = self._minute + _HOUR, of.before.hour
        day = Step.DAY.start_of(hour)
        minutes = unpacked(of.before.minutes)
        if hour >= oldest_kept(Step.MINUTE, now):
            yield HistoryRow(Step.MINUTE, number, hour, sealed(minutes))
        if day >= oldest_kept(Step.HOUR, now):
            whole = merged([sample for _, sample in minutes])
            yield HistoryRow(Step.HOUR, number, day, packed((hour - day) // _HOUR, whole))


def _slices(topics: Iterable[str], subscriptions: Mapping[str, int]) -> Iterator[list[str]]:
    """Divide the topics into lists. Each list has about AT_ONCE topics and subscriptions."""
    part, size = list[str](), 0
    for topic in topics:
        part.append(topic)
        size += 1 + subscriptions.get(topic, 0)
        if size >= AT_ONCE:
            yield part
            part, size = [], 0
    if part:
        yield part
