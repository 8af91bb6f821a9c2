"""A subscriber that asks to come later, and a sender with a backlog, in simulated time."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from app.domain.backoff import retry_delay
from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.commit import Progress
from app.domain.delivery import Delivered, Outcome, Retry
from app.domain.message import Message, Partition, Record
from workers.consumer.commit.cursor import Cursor
from workers.consumer.schedule.delivery_job import DeliveryJob
from workers.consumer.schedule.retry_queue import RetryQueue
from workers.delivery.deferral import Deferral
from workers.delivery.pace import EndedRequest, Pace
from workers.delivery.share import Share

# For how many seconds a request that comes at that time is to wait; None: it is taken.
Later = Callable[[float], float | None]


class Owner:
    """Takes no notice."""

    def readable(self, cursor: Cursor) -> None:
        del cursor

    def moved(self, cursor: Cursor) -> None:
        del cursor


@dataclass(slots=True)
class Sent:
    """Requests by when they left and whether they were taken, and what became of messages."""

    requests: list[tuple[float, bool]] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)
    opened: int = 0

    def taken_ratio(self, since: float) -> float:
        """The part of the requests since then that was taken."""
        late = [taken for at, taken in self.requests if at >= since]
        return sum(late) / max(1, len(late))

    def taken_between(self, start: float, end: float) -> int:
        """Requests in that time that were taken."""
        return sum(taken and start <= at < end for at, taken in self.requests)


def one_in(seconds: float, *, after: float = 1.0) -> Later:
    """Takes a request if it took none for so long, and asks all others to come `after` that."""
    last = float("-inf")

    def reply(now: float) -> float | None:
        nonlocal last
        if now < last + seconds:
            return after
        last = now
        return None

    return reply


def a_bucket(per_second: float, *, burst: float) -> Later:
    """Takes so many a second, and up to `burst` at once; asks all others to come a second later."""
    tokens, last = burst, 0.0

    def reply(now: float) -> float | None:
        nonlocal tokens, last
        tokens, last = min(burst, tokens + (now - last) * per_second), now
        if tokens < 1:
            return 1.0
        tokens -= 1
        return None

    return reply


def a_window_of(count: int, seconds: float) -> Later:
    """Takes so many in each window of that length, and asks others to come in the next one."""
    windows: dict[int, int] = {}

    def reply(now: float) -> float | None:
        window = int(now // seconds)
        if windows.get(window, 0) >= count:
            return (window + 1) * seconds - now
        windows[window] = windows.get(window, 0) + 1
        return None

    return reply


def by_chance(share: float, *, after: float = 1.0) -> Later:
    """Asks this share (0 to 1) of all requests to come later, at any rate, and takes the others."""
    dice = random.Random(2)
    return lambda _: after if dice.random() < share else None


def closed(start: float, end: float, *, after: float) -> Later:
    """Takes all, but asks whatever comes between the two to come `after` that."""
    return lambda now: after if start <= now < end else None


class _Consumer:
    """What is known of messages: those that wait, and how many of the backlog are left."""

    def __init__(self, policy: DeliveryPolicy, messages: int) -> None:
        self.retry_queue = RetryQueue()
        self._policy = policy
        self._left = messages
        self._cursor = Cursor(Owner(), Partition("t", 0), Progress(subscription_id="s", offset=0))
        self.sent = Sent()

    def next(self, now: float, deferral: Deferral) -> DeliveryJob | None:
        if self.retry_queue.has_deferred(now) and not deferral.tries_another:
            return self.retry_queue.take_deferred()
        if self.sent.opened == self._left:
            return self.retry_queue.take(now)
        message = Message(Record(self.sent.opened, 0, None, b"", []), self._cursor.partition)
        self.sent.opened += 1
        job = DeliveryJob(message, self._cursor, now + self._policy.message_ttl.total_seconds())
        job.due = now
        return job

    def retry(self, job: DeliveryJob, after: float, now: float) -> None:
        asked = timedelta(seconds=after)
        delay = retry_delay(self._policy, backoffs=0, retry_after=asked, jitter=0.5)
        due = now + delay.total_seconds()
        if due > job.deadline:
            self.sent.discarded.append(job.message.offset)
        else:
            self.retry_queue.add(job, due)


def send(
    later: Later,
    *,
    messages: int,
    seconds: float,
    rate: int = 400,
    ttl_s: float = 10.0,
    latency_s: float = 0.005,
) -> Sent:
    """What a subscription with a backlog sends in that time."""
    policy = DeliveryPolicy(rate=rate, message_ttl=timedelta(seconds=ttl_s))
    pace, deferral, consumer = Pace(policy, 0.0), Deferral(), _Consumer(policy, messages)
    pace.share(Share.owned(rate, {0}, 1), 0.0)
    dice, now = random.Random(1), 0.0
    in_flight: list[tuple[float, int, DeliveryJob, float | None]] = []
    while now < seconds:
        wait = max(deferral.wait(now) if deferral.active else 0.0, pace.wait(now))
        job = consumer.next(now, deferral) if wait <= 0 else None
        if job is None:
            # Timers are late by up to a millisecond.
            at = now + max(wait, 1e-3) + dice.uniform(0, 1e-3)
            now = min(at, in_flight[0][0]) if in_flight else at
        else:
            job.sent_at, job.pace_epoch = now, pace.sent(now)
            deferral.sent(now)
            arrives = now + latency_s * dice.uniform(0.4, 0.6)
            asked = later(arrives)
            consumer.sent.requests.append((now, asked is None))
            entry = (now + latency_s, len(consumer.sent.requests), job, asked)
            heapq.heappush(in_flight, entry)
        while in_flight and in_flight[0][0] <= now:
            _, _, job, asked = heapq.heappop(in_flight)
            _land(consumer, job, asked, now=now, pace=pace, deferral=deferral)
    return consumer.sent


def _land(
    consumer: _Consumer,
    job: DeliveryJob,
    asked: float | None,
    *,
    now: float,
    pace: Pace,
    deferral: Deferral,
) -> None:
    outcome: Outcome = Delivered(status=200)
    if asked is not None:
        outcome = Retry(reason="busy", status=503, retry_after=timedelta(seconds=asked))
    pace.learn(EndedRequest(job.pace_epoch, outcome, 0.0, job.attempts > 0, full=False), now)
    job.attempts += 1
    if asked is None:
        deferral.taken(sent_at=job.sent_at, now=now, limit=pace.part(now))
        consumer.sent.taken.append(job.message.offset)
        return
    job.deferred_alone += deferral.defer(asked, sent_at=job.sent_at, now=now, rate=pace.rate)
    job.deferred = True
    consumer.retry(job, asked, now)
