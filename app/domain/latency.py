"""How long messages take to their subscribers: the parts of this time, and the promised limit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

SLO_MIN: Final = timedelta(milliseconds=1)
SLO_MAX: Final = timedelta(days=7)


class LatencyPart(StrEnum):
    """A part of the time from a message's publication to its delivery.

    QUEUED: in the log, until a worker took it. WAITED: all waits in Angelia after that (rate,
    order, delays, backoff, the death of a worker). CONNECT: the time of attempts until the request
    was written, if a connection had to be opened. SUBSCRIBER: all other time of attempts. TOTAL:
    the sum of these four.
    """

    TOTAL = "total"
    QUEUED = "queued"
    WAITED = "waited"
    CONNECT = "connect"
    SUBSCRIBER = "subscriber"


class Figure(StrEnum):
    """A statistic over many durations. A percentile is one of these durations (nearest rank)."""

    MEAN = "mean"
    P50 = "p50"
    P95 = "p95"
    P99 = "p99"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLatency:
    """The messages of one subscription that were delivered or discarded in a period of time.

    Attributes:
        topic: The topic.
        subscription: The name of the subscription.
        subscription_id: Its id.
        delivered: The number of delivered messages.
        discarded: The number of discarded messages.
        unknown: The number of delivered and discarded messages whose duration is unknown, because
            no trace entry shows when it began.
        resent: The number of messages that were sent again on request. The other numbers do not
            include these messages.
        attempts: The number of attempts.
        within: How many messages were delivered within the SLO; None if there is no SLO.
        times: Statistics of each part of the time; empty if no duration is known.
    """

    topic: str
    subscription: str
    subscription_id: str
    delivered: int
    discarded: int
    unknown: int
    resent: int
    attempts: int
    within: int | None = None
    times: Mapping[LatencyPart, Mapping[Figure, timedelta]] = field(
        default_factory=dict, hash=False
    )

    @property
    def attained(self) -> float | None:
        """The part of the messages with a known duration that were delivered within the SLO.

        A discarded message counts as not within the SLO. The result is None if there is no SLO, or
        no message with a known duration.
        """
        known = self.delivered + self.discarded - self.unknown
        return None if self.within is None or not known else self.within / known
