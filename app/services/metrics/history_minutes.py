"""Computes the metrics of a subscription or topic since its last recorded minute (pure)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from app.domain.metrics.attempts import gained
from app.domain.metrics.samples import NO_ATTEMPTS, MetricsSample, sample_of, together
from app.storage.health.history_recording import (
    LifetimeCounts,
    Recorded,
    RecordedSubscription,
    RecordedTopic,
    ReportedLoad,
)


class UnrecordedMinute(NamedTuple):
    """The metrics of a subscription or topic since its last recorded minute.

    Attributes:
        key: the id of the subscription, or the name of the topic.
        before: the counts up to the last recorded minute.
        after: the counts up to now.
        sample: the metrics of the time between `before` and `after`.
    """

    key: str
    before: Recorded
    after: Recorded
    sample: MetricsSample

    @property
    def has_changes(self) -> bool:
        """Whether anything happened, or the lag has changed."""
        sample = self.sample
        return any(sample.counts) or any(sample.durations) or sample.lag != self.before.lag


def minute_of_subscription(
    of: RecordedSubscription, counts: LifetimeCounts, reported: ReportedLoad
) -> UnrecordedMinute:
    """Return the metrics of a subscription since its last recorded minute."""
    before, attempts = of.recorded, gained(of.recorded.workers, reported.attempts)
    after = replace(
        before,
        delivered=max(before.delivered, counts.delivered),
        discarded=max(before.discarded, counts.discarded),
        filtered=max(before.filtered, counts.filtered),
        lag=counts.lag,
        # Keep the old counts of the workers if there are no new attempts. So nothing has to be
        # written for a subscription without changes.
        workers=attempts.known if any(attempts.numbers) else before.workers,
    )
    messages = (
        0,
        after.delivered - before.delivered,
        after.discarded - before.discarded,
        after.filtered - before.filtered,
    )
    sample = sample_of(messages, attempts.numbers, lag=counts.lag, allowed=reported.allowed)
    return UnrecordedMinute(of.id, before, after, sample)


def minute_of_topic(
    of: RecordedTopic, samples: Sequence[MetricsSample], published: int | None
) -> UnrecordedMinute:
    """Return the metrics of a topic since its last recorded minute.

    `samples` has the metrics of the topic's subscriptions for the same time. `published` is the
    number of messages that were ever published to the topic; None if the log did not respond.
    """
    before = of.recorded
    recorded = before.published
    if recorded is None:
        # Begin to count published messages now, if the topic was adopted or its history began
        # without this count. For a new topic, count all messages.
        recorded = published if of.adopted or before.id is not None else 0
    current = recorded if published is None else max(published, recorded or 0)
    new = (current or 0) - (recorded or 0)
    everything = together([*samples, sample_of((new, 0, 0, 0), NO_ATTEMPTS, lag=0, allowed=None)])
    after = replace(before, published=current, lag=everything.lag)
    return UnrecordedMinute(of.name, before, after, everything)
