"""A model of a subscriber and of a sender with a backlog, in simulated time."""

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from app.domain.delivery import Delivered, Outcome, Retry
from workers.delivery.pace import EndedRequest

BACKOFF_S = 0.1


class Trouble(NamedTuple):
    """From `start` to `end` (seconds) each request fails with the probability `share`."""

    start: float
    end: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """Takes `capacity` requests a second, and refuses (or, if it `queues`, delays) what is more.

    A tenth of a second's worth may come at once. In `outages` it refuses all, and in `troubles` a
    share of all at random, by `seed`; besides, it fails every n-th request (`fails_each`). It gives
    up what would take longer than `patience_s`.
    """

    capacity: float = 1e9
    latency_s: float = 0.01
    queues: bool = False
    fails_each: int = 0
    patience_s: float = 1.0
    outages: Sequence[tuple[float, float]] = ()
    troubles: Sequence[Trouble] = ()
    seed: int = 1


class Sender(Protocol):
    """What decides when the next request leaves."""

    @property
    def cautious(self) -> bool: ...

    def wait(self, now: float) -> float: ...

    def sent(self, now: float) -> int: ...

    def learn(self, ended: EndedRequest, now: float) -> bool: ...


@dataclass(slots=True)
class Curve:
    """When requests left, and whether each was taken."""

    sent: list[float] = field(default_factory=list)
    taken: list[bool] = field(default_factory=list)

    def count(self, start: float, end: float) -> int:
        """Requests in that time."""
        return sum(start <= at < end for at in self.sent)

    def count_taken(self, start: float, end: float) -> int:
        """Requests in that time that were taken."""
        pairs = zip(self.sent, self.taken, strict=True)
        return sum(start <= at < end and taken for at, taken in pairs)

    def refused_ratio(self, start: float, end: float) -> float:
        """The part of the requests in that time that was not taken."""
        return 1 - self.count_taken(start, end) / max(1, self.count(start, end))

    def per_second(self, seconds: int) -> tuple[list[int], list[int]]:
        """Requests, and requests taken, in each second from 0."""
        sent, taken = [0] * seconds, [0] * seconds
        for at, was_taken in zip(self.sent, self.taken, strict=True):
            if at < seconds:
                sent[int(at)] += 1
                taken[int(at)] += was_taken
        return sent, taken

    def reaches(self, rate: float, since: float) -> float:
        """Seconds from `since` to the first second in which `rate` requests were taken."""
        times = [at for at, ok in zip(self.sent, self.taken, strict=True) if ok and at >= since]
        needed = int(rate)
        for first, last in zip(times, times[needed - 1 :], strict=False):
            if last - first <= 1.0 + 1e-9:
                return first - since
        return float("inf")


class _Model:
    """The subscriber as it goes on."""

    def __init__(self, subscriber: Subscriber) -> None:
        self._it = subscriber
        self._free_at = 0.0
        self._count = 0
        self._dice = random.Random(subscriber.seed)

    def take(self, now: float) -> tuple[bool, float]:
        """Whether a request that comes at `now` is taken, and after how long it is answered."""
        it = self._it
        self._count += 1
        if any(start <= now < end for start, end in it.outages):
            return False, it.latency_s
        if self._fails_by_chance(now):
            return False, it.latency_s
        if it.fails_each and self._count % it.fails_each == 0:
            return False, it.latency_s
        busy = max(0.0, self._free_at - now)
        if it.queues:
            self._free_at = now + busy + 1 / it.capacity
            latency = it.latency_s + busy
            return latency < it.patience_s, min(latency, it.patience_s)
        if busy > 0.1:
            return False, it.latency_s
        self._free_at = now + busy + 1 / it.capacity
        return True, it.latency_s

    def _fails_by_chance(self, now: float) -> bool:
        return any(
            start <= now < end and self._dice.random() < share
            for start, end, share in self._it.troubles
        )


def simulate(
    sender: Sender, subscriber: Subscriber, *, seconds: float, in_flight_max: int = 100
) -> Curve:
    """What the sender sends to the subscriber in that time, if it always has another message."""
    model, curve, now = _Model(subscriber), Curve(), 0.0
    dice = random.Random(1)
    in_flight: list[tuple[float, int, EndedRequest]] = []
    parked: list[float] = []
    while now < seconds:
        wait = sender.wait(now) if len(in_flight) < in_flight_max else 1e9
        if wait > 0:
            now = min(now + max(wait, 1e-6), in_flight[0][0] if in_flight else seconds)
        else:
            retried = bool(parked) and parked[0] <= now and not sender.cautious
            if retried:
                heapq.heappop(parked)
            epoch = sender.sent(now)
            taken, latency = model.take(now)
            curve.sent.append(now)
            curve.taken.append(taken)
            outcome: Outcome = Delivered(status=200) if taken else Retry(reason="no", status=500)
            full = len(in_flight) + 1 >= in_flight_max
            ended = EndedRequest(epoch, outcome, latency, retried, full)
            heapq.heappush(in_flight, (now + latency, len(curve.sent), ended))
        while in_flight and in_flight[0][0] <= now:
            _, _, ended = heapq.heappop(in_flight)
            if isinstance(ended.outcome, Retry):
                heapq.heappush(parked, now + BACKOFF_S * dice.uniform(0.9, 1.1))
            sender.learn(ended, now)
    return curve
