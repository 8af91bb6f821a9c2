"""Reads the history of metrics, including the time that is not recorded yet."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from app.domain.message import Partition
from app.domain.metrics.packing import Indexed, unpacked, unsealed
from app.domain.metrics.samples import MetricsSample, merged
from app.domain.metrics.steps import HistorySpan, Step, requested_span
from app.log.interface import MessageLog
from app.services.metrics.history_minutes import (
    UnrecordedMinute,
    minute_of_subscription,
    minute_of_topic,
)
from app.services.metrics.resources import REPORTED_WITHIN, fresh_bounds
from app.storage.catalogue.ids import no_topic
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database, Session
from app.storage.health.history import HistoryRepository, StoredSteps
from app.storage.health.history_recording import (
    HistoryRecording,
    LifetimeCounts,
    Recorded,
    RecordedSubscription,
    ReportedLoad,
)
from app.storage.slices import made_of

_SECOND: Final = timedelta(seconds=1)
_BEFORE_ALL: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The database has metrics by minute and by hour. _STORED says from which of these two the metrics
# of a minute, an hour or a day are summed. _ROW says how long the time of one table row is.
_STORED: Final = {Step.MINUTE: Step.MINUTE, Step.HOUR: Step.HOUR, Step.DAY: Step.HOUR}
_ROW: Final = {Step.MINUTE: Step.HOUR, Step.HOUR: Step.DAY}

Timed = tuple[datetime, MetricsSample]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedHistory:
    """The requested time and step of a history.

    `requested_span` has the defaults for fields that are None.
    """

    since: datetime | None = None
    until: datetime | None = None
    step: str | None = None


class HistoryPoint(NamedTuple):
    """The metrics of a minute, hour or day in which something happened.

    `elapsed` is how much of this minute, hour or day has passed now.
    """

    start: datetime
    elapsed: timedelta
    sample: MetricsSample


class MetricsHistory(NamedTuple):
    """A history: the requested time, and its minutes, hours or days in which something happened."""

    span: HistorySpan
    points: Sequence[HistoryPoint]


def _now() -> datetime:
    return datetime.now(UTC)


class MetricsHistoryService:
    """Reads recorded histories, and adds the metrics since the last recorded minute.

    The recorded part is read before the current counts. So no message is counted twice.
    """

    def __init__(
        self, database: Database, log: MessageLog, *, clock: Callable[[], datetime] = _now
    ) -> None:
        self._database = database
        self._log = log
        self._clock = clock

    async def subscription(self, topic: str, name: str, wanted: RequestedHistory) -> MetricsHistory:
        """Return the history of a subscription since its creation.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            ValidationFailedError: The requested time or step is not valid.
        """
        now = self._clock()
        span = requested_span(wanted.since, wanted.until, wanted.step, now=now)
        ends = await self._ends(topic)
        async with self._database.transaction() as session:
            found = await SubscriptionRepository(session).get(topic, name)
            recording = HistoryRecording(session)
            known = await recording.subscription(found.id, _later(now))
            known = known or RecordedSubscription(found.id, topic, Recorded(hour=now))
            counted = await recording.counted([found.id], ends)
            reported = await recording.reported([found.id], REPORTED_WITHIN)
            rows = await _rows(session, known.recorded, span)
        current = minute_of_subscription(
            known, counted.get(found.id, LifetimeCounts()), reported.get(found.id, ReportedLoad())
        )
        return MetricsHistory(span, _points(rows, current, span, now=now))

    async def topic(self, name: str, wanted: RequestedHistory) -> MetricsHistory:
        """Return the history of a topic since its creation, including its deleted subscriptions.

        Raises:
            TopicNotFoundError: The topic does not exist.
            ValidationFailedError: The requested time or step is not valid.
        """
        now = self._clock()
        span = requested_span(wanted.since, wanted.until, wanted.step, now=now)
        ends = await self._ends(name)
        async with self._database.transaction() as session:
            recording = HistoryRecording(session)
            topics = await recording.topics([name], _later(now))
            if not topics:
                raise no_topic(name)
            subscriptions = await recording.subscriptions([name], _BEFORE_ALL)
            ids = [each.id for each in subscriptions]
            counted = await recording.counted(ids, ends)
            reported = await recording.reported(ids, REPORTED_WITHIN)
            rows = await _rows(session, topics[0].recorded, span)
        minutes = await made_of(
            subscriptions,
            lambda each: minute_of_subscription(
                each, counted.get(each.id, LifetimeCounts()), reported.get(each.id, ReportedLoad())
            ),
        )
        published = sum(ends.values()) if len(ends) == topics[0].partitions else None
        current = minute_of_topic(topics[0], [each.sample for each in minutes], published)
        return MetricsHistory(span, _points(rows, current, span, now=now))

    async def _ends(self, topic: str) -> Mapping[Partition, int]:
        bounds = await fresh_bounds(self._log, topic) or {}
        return {partition: each.end for partition, each in bounds.items()}


def _later(now: datetime) -> datetime:
    """Return a time that is later than the hour of every recorded minute."""
    return now + Step.DAY.length


async def _rows(session: Session, recorded: Recorded, span: HistorySpan) -> Sequence[StoredSteps]:
    """Return the table rows with the recorded metrics of the requested time."""
    if recorded.id is None:
        return ()
    stored = _STORED[span.step]
    since = _ROW[stored].start_of(span.since)
    return await HistoryRepository(session).rows(recorded.id, stored, since=since, until=span.until)


def _points(
    rows: Sequence[StoredSteps], current: UnrecordedMinute, span: HistorySpan, *, now: datetime
) -> Sequence[HistoryPoint]:
    step = span.step
    steps = _grouped(_samples(rows, current, _STORED[step], now=now), _STORED[step])
    return [
        HistoryPoint(start, max(_SECOND, min(step.length, now - start)), sample)
        for start, sample in _grouped(steps, step)
        if span.since <= start < span.until
    ]


def _samples(
    rows: Sequence[StoredSteps], current: UnrecordedMinute, stored: Step, *, now: datetime
) -> Iterator[Timed]:
    """Yield metrics with their times, in this order.

    First come the metrics of ended hours, then the recorded minutes of the last hour, then the
    metrics since the last recorded minute.
    """
    recorded = current.before
    read = unsealed if stored is Step.MINUTE else unpacked
    for row in rows:
        for start, sample in _timed(row.start, read(row.body), stored):
            # Skip the last hour, whose minutes are also in `recorded.minutes`. These minutes may
            # have been stored as a row after `recorded` was read.
            if start < recorded.hour:
                yield start, sample
    yield from _timed(recorded.hour, unpacked(recorded.minutes), Step.MINUTE)
    if current.has_changes:
        yield now, current.sample


def _timed(start: datetime, samples: Iterable[Indexed], step: Step) -> Iterator[Timed]:
    return ((start + index * step.length, sample) for index, sample in samples)


def _grouped(samples: Iterable[Timed], step: Step) -> list[Timed]:
    """Merge all samples of the same minute, hour or day. Return the results in order of time."""
    found: dict[datetime, list[MetricsSample]] = {}
    for start, sample in samples:
        found.setdefault(step.start_of(start), []).append(sample)
    return [(start, merged(found[start])) for start in sorted(found)]
