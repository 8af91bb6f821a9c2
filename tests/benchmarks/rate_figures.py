"""The published figures of a rate algorithm, measured on the model."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.benchmarks.rate_model import Sender, Subscriber, Trouble, simulate

LIMIT = 400
GOAL = 0.9 * LIMIT
# Requests may go on for this long before a subscriber that went down is left alone.
NOTICE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Makers:
    """How to make the algorithm for a limit: of a new subscription, or of one at its limit."""

    new: Callable[[int], Sender]
    warm: Callable[[int], Sender]
    # How long it takes to be at its limit, even if made warm; and to be there again.
    settled_s: float
    patience_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageFigures:
    """An outage: requests during it, per second after NOTICE_S, and until 90 % after its end."""

    requests: int
    per_second: float
    recovery_s: float


def start(makers: Makers) -> float:
    """Seconds from a new subscription to 90 % of its limit."""
    return simulate(makers.new(LIMIT), Subscriber(), seconds=makers.patience_s).reaches(GOAL, 0.0)


def outage(makers: Makers, length_s: float) -> OutageFigures:
    """An outage of that length, of a subscription at its limit."""
    down, up = makers.settled_s, makers.settled_s + length_s
    subscriber = Subscriber(outages=[(down, up)])
    curve = simulate(makers.warm(LIMIT), subscriber, seconds=up + makers.patience_s)
    late = curve.count(down + NOTICE_S, up) / (length_s - NOTICE_S)
    return OutageFigures(
        requests=curve.count(down, up), per_second=late, recovery_s=curve.reaches(GOAL, up)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialTrouble:
    """Of a subscription at its `limit` a `share` of all attempts fails at random for a time."""

    limit: int
    share: float
    length_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialFigures:
    """The part of the limit that was sent meanwhile, and seconds until 90 % of it are taken."""

    sent: float
    recovery_s: float


def partial(
    makers: Makers, case: PartialTrouble, *, seed: int, patience_s: float
) -> PartialFigures:
    """What such a trouble costs; `recovery_s` is infinite if it is longer than `patience_s`."""
    start = makers.settled_s
    end = start + case.length_s
    subscriber = Subscriber(troubles=[Trouble(start, end, case.share)], seed=seed)
    curve = simulate(makers.warm(case.limit), subscriber, seconds=end + patience_s)
    return PartialFigures(
        sent=curve.count(start, end) / (case.length_s * case.limit),
        recovery_s=curve.reaches(0.9 * case.limit, end),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityFigures:
    """A subscriber that takes less than the limit: how much of it is used, what is refused."""

    used: float
    refused: float
    wasted: int


def capacity(
    makers: Makers, share: float, *, since_s: float, latency_s: float = 0.01
) -> CapacityFigures:
    """A new subscription whose subscriber takes `share` of the limit; a minute from `since_s`."""
    takes = LIMIT * share
    end = since_s + 60
    subscriber = Subscriber(capacity=takes, latency_s=latency_s)
    curve = simulate(makers.new(LIMIT), subscriber, seconds=end, in_flight_max=2_000)
    return CapacityFigures(
        used=curve.count_taken(since_s, end) / (60 * takes),
        refused=curve.refused_ratio(since_s, end),
        wasted=curve.count(0, end) - curve.count_taken(0, end),
    )
