"""Evaluates the health of all subscriptions from regular snapshots (pure).

The evaluator remembers when messages arrived. It also remembers how fast messages were finished,
but only for times in which messages were waiting. If no messages wait, each message is delivered
when it arrives, so the rate of deliveries does not show how many messages the subscriber could
accept.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from app.domain.catalogue.subscription import DeliveryPolicy, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.health.arrivals import Arrivals, Point
from app.domain.health.forecast import Loss, LossCause, Queue, drain_seconds, expiry
from app.domain.health.full_retry_buffers import given_up_after
from app.domain.health.indicators import Thresholds, problems, signs_of
from app.domain.health.pace import WINDOW, RecentGain, Sample
from app.domain.health.subscription_health import SubscriptionHealth
from app.domain.message import Partition
from app.domain.status import CursorStatus, SubscriptionLoad

# A message that arrived less than this many seconds ago does not count as waiting.
WAITING_S: Final = 2.0
# A cursor whose position changes is reported each second. So if its last report is older than this
# many seconds, its position has not changed since the report.
REPORTED_S: Final = 3.0
# If at least this number of messages of a partition was finished, the partition has a rate of its
# own. With fewer messages, the average rate of all partitions is the better estimate.
COUNTED_MIN: Final = 10
# The health of a subscription that has no waiting messages and delivers nothing.
IDLE: Final = SubscriptionHealth()
# If a message has waited for this fraction of `publishTtl`, it will probably be discarded.
_NEARLY: Final = 0.9


class Ends(NamedTuple):
    """The offset of the first message of a partition, and the offset of its next message."""

    start: int
    end: int


class Seen(NamedTuple):
    """The last report about a cursor, and the time of this report in seconds since the epoch."""

    status: CursorStatus
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The state of all topics, subscriptions and workers at one time.

    Attributes:
        now: The time, in seconds since the epoch.
        topics: The topics by name.
        subscriptions: The subscriptions by id.
        cursors: The last report about each cursor, by subscription id and partition index.
        workers: The ids of the running workers.
        loads: What workers report about each subscription, by subscription id.
        ends: The first and the next offset of each partition.
        moved: The ids of the subscriptions with a report about a cursor within the last `WINDOW`.
        opened: When the oldest retried message was taken from the log, by subscription id. Only
            some subscriptions are queried for this time.
    """

    now: float
    topics: Mapping[str, Topic]
    subscriptions: Mapping[str, Subscription]
    cursors: Mapping[str, Mapping[int, Seen]]
    workers: AbstractSet[str]
    loads: Mapping[str, Sequence[SubscriptionLoad]]
    ends: Mapping[Partition, Ends]
    moved: AbstractSet[str]
    opened: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cursor:
    """Where a subscription is in a partition.

    Attributes:
        partition: The partition.
        front: The offset of the next message to take.
        lag: The number of unfinished messages.
        ends: The first and the next offset of the partition.
        seen: The last report about the cursor; None if there is none.
    """

    partition: Partition
    front: int
    lag: int
    ends: Ends
    seen: Seen | None

    @property
    def waiting(self) -> int:
        return self.ends.end - self.front


class HealthEvaluator:
    """Remembers past snapshots, and computes the health of each subscription from them."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._arrivals: dict[Partition, Arrivals] = {}
        self._paces: dict[tuple[str, int], RecentGain] = {}
        self._totals: dict[str, RecentGain] = {}
        # When a new message last arrived in each topic, by the topic's name.
        self._arrived: dict[str, float] = {}
        # The subscriptions whose health was IDLE the last time, each with the settings that it had
        # then.
        self._idle: dict[str, Subscription] = {}

    def observe(self, snapshot: ClusterSnapshot) -> None:
        """Remember the snapshot. Forget subscriptions and topics that no longer exist."""
        known = self._arrivals
        self._arrivals = {each: known.get(each) or Arrivals() for each in snapshot.ends}
        for partition, ends in snapshot.ends.items():
            arrivals = self._arrivals[partition]
            if arrivals.last is None or arrivals.last.offset != ends.end:
                self._arrived[partition.topic] = snapshot.now
            arrivals.observe(snapshot.now, ends.end)
        there = snapshot.subscriptions
        self._paces = {key: pace for key, pace in self._paces.items() if key[0] in there}
        self._totals = {key: pace for key, pace in self._totals.items() if key in there}
        self._idle = {key: each for key, each in self._idle.items() if key in there}
        self._arrived = {key: at for key, at in self._arrived.items() if key in snapshot.topics}

    def unknown(self, snapshot: ClusterSnapshot) -> dict[Partition, int]:
        """Return the partitions with waiting messages that arrived before the first snapshot.

        When these messages arrived is not known yet. For each partition, the value is the offset of
        its first waiting message.
        """
        found: dict[Partition, int] = {}
        for subscription in snapshot.subscriptions.values():
            if subscription.id in self._idle:
                continue
            for cursor in _cursors(subscription, snapshot):
                first = self._arrivals[cursor.partition].first
                if cursor.waiting > 0 and first and first.offset > cursor.front:
                    oldest = found.get(cursor.partition, cursor.front)
                    found[cursor.partition] = min(oldest, cursor.front)
        return found

    def recall(self, earlier: Mapping[Partition, Sequence[Point]]) -> None:
        """Add points that were read from the log, for the time before the first snapshot."""
        for partition, points in earlier.items():
            if arrivals := self._arrivals.get(partition):
                arrivals.recall(points)

    def evaluate(self, snapshot: ClusterSnapshot) -> dict[str, SubscriptionHealth]:
        """Return the health of each subscription, by subscription id."""
        found: dict[str, SubscriptionHealth] = {}
        for each in snapshot.subscriptions.values():
            if each.topic not in snapshot.topics:
                continue
            if self._is_idle(each, snapshot):
                found[each.id] = IDLE
                continue
            subscription_health = found[each.id] = self._health(each, snapshot)
            if subscription_health == IDLE:
                self._idle[each.id] = each
        return found

    def _is_idle(self, subscription: Subscription, snapshot: ClusterSnapshot) -> bool:
        """Return whether the health is still IDLE, because nothing has changed since the last time.

        This check is fast, and saves the evaluation of most subscriptions.
        """
        arrived = self._arrived.get(subscription.topic, 0.0)
        if subscription.id in snapshot.moved or snapshot.now - arrived <= WINDOW.total_seconds():
            self._idle.pop(subscription.id, None)
            return False
        return self._idle.get(subscription.id) is subscription

    def _health(self, subscription: Subscription, snapshot: ClusterSnapshot) -> SubscriptionHealth:
        cursors = list(_cursors(subscription, snapshot))
        now = snapshot.now
        waits = [cursor for cursor in cursors if self._waits(cursor, now)]
        self._time(subscription.id, cursors, waits, now=now)
        queues = list(self._queues(subscription, waits, now=now))
        total = self._total(subscription.id, cursors, now)
        lag_time = max((now - queue.arrived[0].at for queue in queues), default=0.0)
        lag = timedelta(seconds=round(max(0.0, lag_time), 1))
        loads = snapshot.loads.get(subscription.id, ())
        signs = signs_of(loads, lag=lag, client_errors=subscription.policy.retry_client_errors)
        topic = snapshot.topics[subscription.topic]
        known = subscription.rests or all(self._is_known(subscription, each) for each in waits)
        losses = [*_queue_losses(queues, subscription, topic)] if known else []
        losses += _open_loss(subscription, snapshot)
        return SubscriptionHealth(
            lag=sum(cursor.lag for cursor in cursors),
            lag_time=lag,
            arrival_rate=sum(self._arrival_rate(cursor.partition, now) for cursor in cursors),
            output_rate=_per_second(total.gained.finished, total.elapsed),
            drain=_drain(queues) if known else None,
            losses=tuple(sorted(losses, key=lambda loss: loss.at)),
            discarded=total.gained.discarded,
            discarded_share=_share(total.gained),
            problems=() if subscription.rests else problems(signs, self._thresholds),
        )

    def _waits(self, cursor: _Cursor, now: float) -> bool:
        """Return whether messages wait for the cursor.

        A message must have arrived before the previous snapshot, and at least `WAITING_S` seconds
        ago.
        """
        if cursor.waiting <= 0:
            return False
        arrivals = self._arrivals[cursor.partition]
        if arrivals.before_last is None or arrivals.before_last.offset <= cursor.front:
            return False
        return now - arrivals.time_of(cursor.front) >= WAITING_S

    def _time(
        self,
        subscription_id: str,
        cursors: Sequence[_Cursor],
        waits: Sequence[_Cursor],
        *,
        now: float,
    ) -> None:
        """Measure how fast messages are finished in those partitions where messages wait.

        `waits` are the cursors with waiting messages. In all other partitions, the measurement
        begins again.
        """
        waiting = {cursor.partition for cursor in waits}
        for cursor in cursors:
            key = (subscription_id, cursor.partition.index)
            sample = _sample([cursor.seen] if cursor.seen else [], now)
            pace = self._paces.setdefault(key, RecentGain())
            if cursor.partition in waiting:
                pace.observe(sample)
            else:
                pace.restart(sample)

    def _is_known(self, subscription: Subscription, cursor: _Cursor) -> bool:
        return self._paces[subscription.id, cursor.partition.index].is_known

    def _total(self, subscription_id: str, cursors: Sequence[_Cursor], now: float) -> RecentGain:
        total = self._totals.setdefault(subscription_id, RecentGain())
        total.observe(_sample([cursor.seen for cursor in cursors if cursor.seen], now))
        return total

    def _arrival_rate(self, partition: Partition, since: float) -> float:
        return self._arrivals[partition].rate(since - WINDOW.total_seconds()) or 0.0

    def _queues(
        self, subscription: Subscription, waits: Sequence[_Cursor], *, now: float
    ) -> Iterator[Queue]:
        outputs = self._outputs(subscription, waits)
        for cursor, output in zip(waits, outputs, strict=True):
            arrivals = self._arrivals[cursor.partition]
            pace = self._paces[subscription.id, cursor.partition.index]
            since = now - WINDOW.total_seconds() if pace.since is None else pace.since
            yield Queue(
                arrived=arrivals.since(cursor.front),
                arrival_rate=arrivals.rate(since) or 0.0,
                output_rate=output,
            )

    def _outputs(self, subscription: Subscription, waits: Sequence[_Cursor]) -> list[float]:
        """Return how many messages per second are taken from each partition in `waits`."""
        if subscription.rests:
            return [0.0] * len(waits)
        rated = [(cursor, *self._rate(subscription, cursor)) for cursor in waits]
        # For a partition with few finished messages, the average of all partitions is used. This is
        # a good estimate, because messages of different partitions are sent alternately.
        even = sum(rate for _, _, rate in rated) / max(1, len(rated))
        return [rate if count >= COUNTED_MIN else even for _, count, rate in rated]

    def _rate(self, subscription: Subscription, cursor: _Cursor) -> tuple[int, float]:
        """Return how many messages of the partition were finished, in total and per second."""
        pace = self._paces[subscription.id, cursor.partition.index]
        gained = pace.latest
        # Messages that are discarded because of their age do not count, because this takes no time.
        idly = gained.discarded if self._is_late(subscription, cursor) else 0
        count = gained.finished - idly
        return count, _per_second(count, gained.at)

    def _is_late(self, subscription: Subscription, cursor: _Cursor) -> bool:
        """Return whether the waiting messages are so old that they are discarded and not sent."""
        life, arrivals = subscription.policy.publish_ttl, self._arrivals[cursor.partition]
        if life is None or arrivals.last is None:
            return False
        age = arrivals.last.at - arrivals.time_of(cursor.front)
        return age >= _NEARLY * life.total_seconds()


def _cursors(subscription: Subscription, snapshot: ClusterSnapshot) -> Iterator[_Cursor]:
    topic = snapshot.topics.get(subscription.topic)
    if topic is None:
        return
    cursors = snapshot.cursors.get(subscription.id, {})
    for index in range(topic.partitions):
        partition = Partition(topic.name, index)
        if ends := snapshot.ends.get(partition):
            seen = cursors.get(index)
            started = subscription.start.get(index, 0)
            committed = seen.status.offset if seen else started
            front = committed
            if seen and seen.status.worker_id in snapshot.workers and not subscription.rests:
                front = max(front, seen.status.position or 0)
            yield _cursor(partition, seen, ends=ends, front=front, committed=committed)


def _cursor(
    partition: Partition, seen: Seen | None, *, ends: Ends, front: int, committed: int
) -> _Cursor:
    front = min(max(front, ends.start), ends.end)
    return _Cursor(
        partition=partition,
        front=front,
        lag=max(0, ends.end - max(committed, ends.start)),
        ends=ends,
        seen=seen,
    )


def _sample(seen: Sequence[Seen], now: float) -> Sample:
    """Return the sum of the counts in the last reports, with the time of the last report.

    If the last report is old, nothing has changed since then. The time in the result is then `now`.
    """
    reported = max((each.at for each in seen), default=now)
    return Sample(
        reported if now - REPORTED_S < reported < now else now,
        sum(each.status.delivered for each in seen),
        sum(each.status.discarded for each in seen),
        sum(each.status.filtered for each in seen),
    )


def _per_second(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _share(gained: Sample) -> float:
    tried = gained.delivered + gained.discarded
    return gained.discarded / tried if tried else 0.0


def _drain(queues: Sequence[Queue]) -> timedelta | None:
    spans = [drain_seconds(queue) for queue in queues]
    if any(span is None for span in spans):
        return None
    longest = max((span for span in spans if span is not None), default=0.0)
    return timedelta(seconds=round(longest, 1)) if longest < _YEAR_S else None


_YEAR_S: Final = 365 * 86_400.0


def _queue_losses(
    queues: Sequence[Queue], subscription: Subscription, topic: Topic
) -> Iterator[Loss]:
    lives = {LossCause.RETENTION: topic.retention}
    if subscription.policy.publish_ttl is not None:
        lives[LossCause.PUBLISH_TTL] = subscription.policy.publish_ttl
    for cause, life in lives.items():
        found = [expiry(queue, life) for queue in queues]
        firsts = [each.first_in for each in found if each.first_in is not None]
        if firsts:
            yield Loss(
                cause=cause,
                at=_instant(queues[0].now + min(firsts)),
                messages=round(sum(each.messages for each in found)),
                rate=sum(each.rate for each in found),
            )


def _open_loss(subscription: Subscription, snapshot: ClusterSnapshot) -> Iterator[Loss]:
    """Yield the losses of retried messages that are expected.

    A loss is expected if no attempt succeeds now, or if one message has failed for a long time.
    """
    opened = snapshot.opened.get(subscription.id)
    if opened is None:
        return
    loads = snapshot.loads.get(subscription.id, ())
    cause, life = _end(subscription.policy, loads)
    in_vain = not any(load.counts.codes_2xx for load in loads)
    if in_vain or snapshot.now - opened >= life / 2:
        tried = sum(load.in_flight + load.waiting_retries for load in loads) if in_vain else 1
        at = _instant(max(snapshot.now, opened + life))
        yield Loss(cause=cause, at=at, messages=max(1, tried))


def _end(policy: DeliveryPolicy, loads: Sequence[SubscriptionLoad]) -> tuple[LossCause, float]:
    """Return the limit that a retried message reaches first, and its length in seconds.

    The time begins when the message is taken from the log.
    """
    wait = given_up_after(policy, loads)
    if wait is not None and wait < policy.message_ttl:
        return LossCause.RETRY_BUFFER, wait.total_seconds()
    return LossCause.MESSAGE_TTL, policy.message_ttl.total_seconds()


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(round(seconds, 1), UTC)
