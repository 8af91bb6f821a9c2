"""Computes metrics of a subscription or a topic from the workers' reports (pure)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from app.domain.circuit import CircuitReading, CircuitState
from app.domain.message import Partition
from app.domain.status import CursorStatus, Output, RateMode, SubscriptionLoad
from app.log.interface import Bounds

_SEVERITY: Final = (RateMode.NORMAL, RateMode.SLOW, RateMode.HEARTBEAT)
_OPENNESS: Final = (CircuitState.CLOSED, CircuitState.HALF_OPEN, CircuitState.OPEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogForecast:
    """Backlog forecast of one subscription, from the last evaluation.

    Attributes:
        oldest_age: the minimum age of the oldest unfinished message; for a retried message, the
            time since its first attempt.
        drain: the time until the backlog is delivered; None if it never is, or if this is unknown.
        expiring: how many messages reach the end of their time to live before they are delivered.
    """

    oldest_age: timedelta
    drain: timedelta | None
    expiring: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionMetrics:
    """Metrics of one subscription: counts since its creation, open messages, and rates per second.

    Attributes:
        delivered, discarded, filtered: the messages since the creation of the subscription.
        volume: the delivered bytes since then.
        inflight: the requests in flight now.
        lag: the messages after the committed positions now.
        waiting_retries: the messages that wait for a retry now.
        rate: the requests per second.
        throughput: the delivered bytes per second.
        batch_rate: the requests with batches per second.
        timeouts, other_errors, codes_2xx, codes_4xx, codes_5xx: the attempts per second, by
            outcome.
        retries: the retries per second.
        output: the limit over all workers, with the mode of the worst worker, the strictest circuit
            and the earliest probe; None if no worker reports.
        backlog_forecast: only for a single subscription, otherwise None.
    """

    delivered: int
    discarded: int
    filtered: int
    volume: int
    inflight: int
    lag: int
    waiting_retries: int = 0
    rate: float = 0.0
    throughput: float = 0.0
    batch_rate: float = 0.0
    timeouts: float = 0.0
    other_errors: float = 0.0
    codes_2xx: float = 0.0
    codes_4xx: float = 0.0
    codes_5xx: float = 0.0
    retries: float = 0.0
    output: Output | None = None
    backlog_forecast: BacklogForecast | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetrics:
    """Metrics of one topic: counts, and rates per second.

    Attributes:
        published: the messages ever published to the topic; None if the log did not respond.
        volume: the published bytes, as API processes have counted them.
        rate: the messages published per second over the last minute; None if the log was not
            queried.
        subscriptions: the number of subscriptions.
        delivery_rate: the deliveries per second, of all subscriptions.
        throughput: the delivered bytes per second, of all subscriptions.
    """

    published: int | None
    volume: int
    rate: float | None = None
    subscriptions: int
    delivery_rate: float
    throughput: float


def summed_metrics(
    cursors: Sequence[CursorStatus], loads: Sequence[SubscriptionLoad], lag: int
) -> SubscriptionMetrics:
    """Return the metrics of a subscription: the sums over its cursors and workers' reports."""
    return SubscriptionMetrics(
        delivered=sum(cursor.delivered for cursor in cursors),
        discarded=sum(cursor.discarded for cursor in cursors),
        filtered=sum(cursor.filtered for cursor in cursors),
        volume=sum(cursor.volume for cursor in cursors),
        inflight=sum(load.in_flight for load in loads),
        waiting_retries=sum(load.waiting_retries for load in loads),
        lag=lag,
        output=_output([load.output for load in loads]),
        backlog_forecast=None,
        **_rates(loads),
    )


def lag_behind(cursors: Iterable[CursorStatus], bounds: Mapping[Partition, Bounds] | None) -> int:
    """Return the number of messages between the committed offsets and the ends of the partitions.

    `bounds` has the ends. If an end is missing in `bounds`, the end in the last report of the
    cursor is used.
    """
    known = bounds or {}
    return sum(
        max(0, _end(cursor, known.get(Partition(cursor.topic, cursor.partition))) - cursor.offset)
        for cursor in cursors
    )


def delivery_rates(loads: Iterable[SubscriptionLoad]) -> tuple[float, float]:
    """Return deliveries per second, and delivered bytes per second, summed over the reports."""
    reports = [(load.counts, load.window.total_seconds()) for load in loads if load.window]
    rate = sum(counts.codes_2xx / seconds for counts, seconds in reports)
    return rate, sum(counts.bytes / seconds for counts, seconds in reports)


def _output(outputs: Sequence[Output]) -> Output | None:
    if not outputs:
        return None
    worst = max(outputs, key=lambda output: _SEVERITY.index(output.mode))
    return replace(
        worst,
        rate=sum(output.rate for output in outputs),
        circuit=_circuit([output.circuit for output in outputs if output.circuit]),
        next_probe_at=min((at for each in outputs if (at := each.next_probe_at)), default=None),
    )


def _circuit(circuits: Sequence[CircuitReading]) -> CircuitReading | None:
    return max(circuits, key=lambda each: _OPENNESS.index(each.state), default=None)


def _end(cursor: CursorStatus, fresh: Bounds | None) -> int:
    return fresh.end if fresh else cursor.end


def _rates(loads: Iterable[SubscriptionLoad]) -> Mapping[str, float]:
    sums = dict.fromkeys(
        (
            "rate",
            "throughput",
            "timeouts",
            "other_errors",
            "codes_2xx",
            "codes_4xx",
            "codes_5xx",
            "retries",
        ),
        0.0,
    )
    for load in loads:
        for name, count in _counted(load).items():
            sums[name] += count / load.window.total_seconds() if load.window else 0.0
    return sums


def _counted(load: SubscriptionLoad) -> Mapping[str, int]:
    counts = load.counts
    return {
        "rate": counts.attempts,
        "throughput": counts.bytes,
        "timeouts": counts.timeouts,
        "other_errors": counts.other_errors,
        "codes_2xx": counts.codes_2xx,
        "codes_4xx": counts.codes_4xx,
        "codes_5xx": counts.codes_5xx,
        "retries": counts.retries,
    }
