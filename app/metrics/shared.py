"""Metrics that both API processes and workers have."""

from collections.abc import Mapping
from typing import Protocol

from app.domain.names import group_of
from app.metrics import catalogue
from app.metrics.readings import Labels, Readings


class LogTotals(Protocol):
    """What this process has done with the message log since it started.

    `app.log.interface.LogStats` has these totals.
    """

    appended_records: int
    fetched_records: int
    fetched_bytes: int
    fetches: int
    follower_fetches: int
    commits: int
    throttled_seconds: float


class SpanTotals(Protocol):
    """The numbers of spans since the process started (`app.otlp.spans.SpanStats`)."""

    @property
    def exported(self) -> int:
        """The number of spans that the endpoint has accepted."""

    @property
    def lost(self) -> int:
        """The number of spans that were dropped for lack of space, or refused."""


class TraceTotals(Protocol):
    """The numbers of trace entries since the process started (`app.tracing.buffer.TraceStats`)."""

    @property
    def recorded(self) -> int:
        """The number of trace entries that the log has accepted."""

    @property
    def lost(self) -> int:
        """The number of trace entries that were dropped for lack of space."""


class StoredTraceTotals(Protocol):
    """How many trace entries were not stored since the process started, and the used space.

    The implementation is in `workers.recorder.traces`.
    """

    @property
    def lost(self) -> Mapping[str, int]:
        """The number of trace entries that were not stored, by cause."""

    @property
    def room(self) -> float | None:
        """The used part of the space for traces, from 0 to 1; None until it is known."""


def topic_labels(topic: str) -> Labels:
    """Return the group and the name of a topic, from its full name, as Hermes labels them."""
    group = group_of(topic)
    return group, topic[len(group) + 1 :]


def subscription_labels(topic: str, name: str) -> Labels:
    """Return group and name of the topic, and the name of the subscription."""
    return *topic_labels(topic), name


def read_log(readings: Readings, totals: LogTotals) -> None:
    """Add how much this process has appended to the log, read from it, and committed."""
    readings.add_each(
        (
            (catalogue.LOG_APPENDED, totals.appended_records),
            (catalogue.LOG_FETCHED, totals.fetched_records),
            (catalogue.LOG_FETCHED_BYTES, totals.fetched_bytes),
            (catalogue.LOG_FETCHES, totals.fetches),
            (catalogue.LOG_FOLLOWER_FETCHES, totals.follower_fetches),
            (catalogue.LOG_COMMITS, totals.commits),
            (catalogue.LOG_THROTTLED, totals.throttled_seconds),
        )
    )


def read_traces(readings: Readings, totals: TraceTotals) -> None:
    """Add how many trace entries this process has recorded, and how many it has lost."""
    readings.add(catalogue.TRACES_RECORDED, totals.recorded)
    readings.add(catalogue.TRACES_LOST, totals.lost)


def read_stored_traces(readings: Readings, totals: StoredTraceTotals) -> None:
    """Add how many trace entries were not stored, and how much of the space for traces is used."""
    for cause, entries in sorted(totals.lost.items()):
        readings.add(catalogue.TRACES_NOT_STORED, entries, (cause,))
    if totals.room is not None:
        readings.add(catalogue.TRACES_ROOM, totals.room)


def read_spans(readings: Readings, totals: SpanTotals) -> None:
    """Add how many spans this process has exported, and how many it has lost."""
    readings.add(catalogue.SPANS_EXPORTED, totals.exported)
    readings.add(catalogue.SPANS_LOST, totals.lost)
