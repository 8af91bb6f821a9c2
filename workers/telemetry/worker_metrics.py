"""Computes a worker's metrics from counts that the worker keeps for its own work."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Final, Protocol

from app.domain.catalogue.changes import LastChange
from app.domain.errors import UnavailableError
from app.domain.metrics.samples import DURATION_BOUNDS
from app.domain.status import AttemptCounts
from app.log.interface import MessageLog
from app.log.throttling import throttled
from app.metrics import catalogue
from app.metrics.event_loop import read_event_loop
from app.metrics.name_cap import CappedReadings, NameCap
from app.metrics.process import ProcessMetrics
from app.metrics.readings import Distribution, Labels, Readings, Value
from app.metrics.shared import (
    StoredTraceTotals,
    read_log,
    read_spans,
    read_stored_traces,
    read_traces,
    subscription_labels,
)
from app.otlp.spans import SpanBuffer
from app.tracing.buffer import TraceBuffer
from workers.consumer.commit.tally import Finished
from workers.consumer.outcome.latency import Latency
from workers.consumer.subscription_consumer import SubscriptionConsumer

ANSWER_WITHIN: Final = timedelta(seconds=1)
# The number of subscriptions whose metrics are computed in one turn of the event loop. This takes
# about a millisecond if each has eight partitions.
CONSUMERS_PER_TURN: Final = 10
# The number of consumers whose names are read in one turn of the event loop. This takes less than
# half a millisecond.
NAMES_PER_TURN: Final = 200


class Connections(Protocol):
    """The connections to subscribers."""

    @property
    def connections(self) -> int:
        """The number of connections that are open or being opened."""

    @property
    def idle_connections(self) -> int:
        """The number of open connections that wait for a request."""

    @property
    def waiting_requests(self) -> int:
        """The number of requests that wait for a connection."""


class KnownConsumers(Protocol):
    """The consumers of a worker."""

    def known(self) -> Iterator[SubscriptionConsumer]:
        """Yield the active and the idle consumers."""

    def consumers(self) -> Collection[SubscriptionConsumer]:
        """The active consumers."""


class DeliveryState(Protocol):
    """What a worker knows about the partitions and subscriptions that it has to deliver."""

    @property
    def applied(self) -> LastChange | None:
        """The last change that is in effect in this worker; None before the first."""

    @property
    def owned(self) -> Collection[object]:
        """The owned partitions."""

    @property
    def waits(self) -> Mapping[str, str]:
        """Return what each part of the worker waits for; empty if none waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMetrics:
    """The metrics of one worker; see `ObservedWorker`.

    Only a limited number of subscriptions (`cap`) have metrics of their own. The metrics of all
    other subscriptions are added up under one name.
    """

    state: DeliveryState
    consumers: KnownConsumers
    log: MessageLog
    traces: TraceBuffer
    cap: NameCap
    connections: Connections | None = None
    spans: SpanBuffer | None = None
    stored_traces: StoredTraceTotals | None = None
    _process: ProcessMetrics = field(default_factory=ProcessMetrics)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def read(self) -> Readings:
        """Return all current metrics. During this call, the event loop also does other work."""
        async with self._reading:
            return await self._read()

    async def _read(self) -> Readings:
        readings, known = Readings(), tuple(self.consumers.known())
        with self.cap.collecting(readings) as capped:
            for number, (names, consumers) in enumerate((await _by_names(known)).items(), 1):
                _read_consumers(capped, names, consumers)
                if number % CONSUMERS_PER_TURN == 0:
                    await asyncio.sleep(0)
        readings.add(catalogue.WORKER_PARTITIONS, len(self.state.owned))
        readings.add(catalogue.WORKER_SUBSCRIPTIONS, len(self.consumers.consumers()))
        if self.connections is not None:
            _read_connections(readings, self.connections)
        read_log(readings, self.log.stats)
        read_traces(readings, self.traces.stats)
        if self.stored_traces is not None:
            read_stored_traces(readings, self.stored_traces)
        if self.spans is not None:
            read_spans(readings, self.spans.stats)
        await read_event_loop(readings)
        self._process.read(readings)
        return readings

    async def waits(self) -> Mapping[str, str]:
        """Return what each part of the worker waits for, and the problem of the log, if any."""
        return {**self.state.waits, "log": await self._log_problem()}

    def throttled(self) -> Sequence[str]:
        """Return a line of text about each broker that throttles this worker."""
        return throttled(self.log.stats)

    async def _log_problem(self) -> str:
        try:
            async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
                await self.log.ping()
        except TimeoutError:
            return f"no answer within {ANSWER_WITHIN.total_seconds():g} s"
        except UnavailableError as error:
            return error.message
        return ""


async def _by_names(
    consumers: Iterable[SubscriptionConsumer],
) -> Mapping[Labels, list[SubscriptionConsumer]]:
    """Group consumers by name, so that a recreated subscription continues the same time series."""
    found: dict[Labels, list[SubscriptionConsumer]] = {}
    for number, consumer in enumerate(consumers, 1):
        subscription = consumer.subscription
        names = subscription_labels(subscription.topic, subscription.name)
        found.setdefault(names, []).append(consumer)
        if number % NAMES_PER_TURN == 0:
            await asyncio.sleep(0)
    return found


def _read_consumers(
    capped: CappedReadings, names: Labels, consumers: Sequence[SubscriptionConsumer]
) -> None:
    finished = Finished()
    for consumer in consumers:
        finished = finished.plus(consumer.finished())
    attempts = _together([consumer.counts.ever() for consumer in consumers])
    for metric, value in (*_finished(finished), *_attempts(attempts)):
        capped.add(metric, value, names)
    for status, count in _statuses(attempts):
        capped.add(catalogue.STATUS_CODES, count, names, status)
    took = _took([consumer.latency for consumer in consumers])
    if any(took.counts):
        capped.add(catalogue.LATENCY, took, names)
    capped.add(catalogue.UNJUDGED, sum(consumer.unjudged for consumer in consumers), names)
    capped.add(
        catalogue.INTERNAL_ERRORS, sum(consumer.defects.count for consumer in consumers), names
    )
    capped.add(catalogue.INFLIGHT, sum(consumer.in_flight for consumer in consumers), names)
    if consumers[0].subscription.batching is not None:
        capped.add(catalogue.BATCHES, attempts.attempts, names)


def _together(counts: Sequence[AttemptCounts]) -> AttemptCounts:
    if len(counts) == 1:
        return counts[0]
    return AttemptCounts(
        **{each.name: sum(getattr(c, each.name) for c in counts) for each in fields(AttemptCounts)}
    )


def _took(latencies: Sequence[Latency]) -> Distribution:
    """Return one distribution that adds up these latencies.

    The counts are copied, because deliveries may change them before the metrics are written.
    """
    counts = [sum(each) for each in zip(*(one.within for one in latencies), strict=True)]
    return Distribution(DURATION_BOUNDS, counts, sum(one.seconds for one in latencies))


def _finished(finished: Finished) -> Iterator[tuple[catalogue.Metric, Value]]:
    yield catalogue.DELIVERED, finished.delivered
    yield catalogue.DISCARDED, finished.discarded
    yield catalogue.FILTERED_OUT, finished.filtered
    yield catalogue.DELIVERED_BYTES, finished.volume


def _attempts(counts: AttemptCounts) -> Iterator[tuple[catalogue.Metric, Value]]:
    yield catalogue.TIMEOUTS, counts.timeouts
    yield catalogue.OTHER_ERRORS, counts.other_errors
    yield catalogue.FAILURES, counts.attempts - counts.codes_2xx
    yield catalogue.RETRIES, counts.retries


def _statuses(counts: AttemptCounts) -> Iterator[tuple[str, int]]:
    yield "2xx", counts.codes_2xx
    yield "4xx", counts.codes_4xx
    yield "5xx", counts.codes_5xx
    yield "other", counts.codes_other


def _read_connections(readings: Readings, connections: Connections) -> None:
    idle = connections.idle_connections
    readings.add(catalogue.WORKER_CONNECTIONS, idle, ("idle",))
    readings.add(catalogue.WORKER_CONNECTIONS, connections.connections - idle, ("busy",))
    readings.add(catalogue.WORKER_WAITING, connections.waiting_requests)
