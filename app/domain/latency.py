"""How long messages take to their subscribers, where the time goes, and what was promised."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

SLO_MIN: Final = timedelta(milliseconds=1)
SLO_MAX: Final = timedelta(days=7)


class LatencyPart(StrEnum):
    """A part of the time from a message's publication to its delivery.

    QUEUED: in the log, until a worker took it. WAITED: all of ours after that (rate, order, delays,
    backoff, another worker's death). CONNECT and SUBSCRIBER: in attempts, until the request was
    written where a connection had to be opened for it, and the rest. Those four make up the TOTAL.
    """

    TOTAL = "total"
    QUEUED = "queued"
    WAITED = "waited"
    CONNECT = "connect"
    SUBSCRIBER = "subscriber"


class Figure(StrEnum):
    """What is said of many times; a percentile is one of them (nearest rank)."""

    MEAN = "mean"
    P50 = "p50"
    P95 = "p95"
    P99 = "p99"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLatency:
    """The messages of one subscription that were done with in a time: delivered, or discarded.

    Of `unknown` ones the beginning is not traced, so that nobody knows how long they took; they
    are in `delivered` or `discarded`, too. `resent` ones were sent again on request: they are in
    nothing else. `within` were delivered within the SLO; None: there is none. `times` has nothing
    when none was delivered of which the time is known.
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
        """The share of known messages that were delivered within the SLO; a discard was not.

        None without an SLO, or without a message.
        """
        known = self.delivered + self.discarded - self.unknown
        return None if self.within is None or not known else self.within / known
