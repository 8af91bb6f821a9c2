"""A topic with a subscription that takes so much a second, looked at again and again."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

from app.domain.catalogue.subscription import DeliveryPolicy, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.health.evaluator import ClusterSnapshot, Ends, HealthEvaluator, Seen
from app.domain.health.indicators import Thresholds
from app.domain.health.subscription_health import SubscriptionHealth
from app.domain.message import Partition
from app.domain.status import CursorStatus, SubscriptionLoad

START = 1_000_000.0
TOPIC = "shop.orders"


@dataclass
class Model:
    """Seconds pass in `pass_second`; a look takes no time."""

    arriving: float
    capacity: float
    partitions: int = 2
    retention: timedelta = timedelta(days=1)
    policy: DeliveryPolicy = field(default_factory=DeliveryPolicy)
    now: float = START
    first_loss: float | None = None
    lost: int = 0
    arrived_at: list[list[float]] = field(default_factory=list)
    fronts: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)
    # In each partition, messages that were taken and are not finished.
    open: int = 0
    workers: frozenset[str] = frozenset({"w1"})
    loads: list[SubscriptionLoad] = field(default_factory=list)
    opened: dict[str, float] = field(default_factory=dict)
    _owed: float = 0.0
    _spare: float = 0.0

    def __post_init__(self) -> None:
        self.evaluator = HealthEvaluator(Thresholds())
        self.topic = Topic(name=TOPIC, partitions=self.partitions, retention=self.retention)
        self.subscription = Subscription(
            id="s-1", topic=TOPIC, name="billing", endpoint="http://b.test/", policy=self.policy
        )
        self.arrived_at = [[] for _ in range(self.partitions)]
        self.fronts = [0] * self.partitions
        self.delivered = [0] * self.partitions

    @property
    def life(self) -> timedelta:
        return min(self.retention, self.policy.publish_ttl or self.retention)

    def pass_seconds(self, count: int) -> None:
        for _ in range(count):
            self.pass_second()

    def pass_second(self) -> None:
        for _ in range(self._whole_arrivals()):
            partition = min(range(self.partitions), key=lambda p: len(self.arrived_at[p]))
            self.arrived_at[partition].append(self.now)
        self.now += 1
        self._expire()
        self._spare = min(self._spare + self.capacity, max(self.capacity, 1.0))
        while self._spare >= 1 and (oldest := self._oldest()) is not None:
            self._spare -= 1
            self.fronts[oldest] += 1
            self.delivered[oldest] += 1

    def look(self) -> SubscriptionHealth:
        snapshot = self.snapshot()
        self.evaluator.observe(snapshot)
        return self.evaluator.evaluate(snapshot)[self.subscription.id]

    def snapshot(self) -> ClusterSnapshot:
        cursors = {index: Seen(status, self.now) for index, status in enumerate(self._statuses())}
        return ClusterSnapshot(
            now=self.now,
            topics={TOPIC: self.topic},
            subscriptions={self.subscription.id: self.subscription},
            cursors={self.subscription.id: cursors},
            workers=self.workers,
            loads={self.subscription.id: self.loads},
            ends={
                Partition(TOPIC, index): Ends(0, len(arrived))
                for index, arrived in enumerate(self.arrived_at)
            },
            moved={self.subscription.id},
            opened=self.opened,
        )

    def suspend(self) -> None:
        state = type(self.subscription.state)("SUSPENDED")
        self.subscription = replace(self.subscription, state=state)
        self.capacity = 0.0

    def _statuses(self) -> Iterator[CursorStatus]:
        for index, front in enumerate(self.fronts):
            yield CursorStatus(
                subscription_id=self.subscription.id,
                topic=TOPIC,
                partition=index,
                worker_id="w1",
                offset=front,
                end=front,
                delivered=self.delivered[index],
                discarded=self.fronts[index] - self.delivered[index],
                volume=0,
                position=min(front + self.open, len(self.arrived_at[index])),
            )

    def _whole_arrivals(self) -> int:
        self._owed += self.arriving
        whole = int(self._owed)
        self._owed -= whole
        return whole

    def _expire(self) -> None:
        oldest_kept = self.now - self.life.total_seconds()
        for index, arrived in enumerate(self.arrived_at):
            while self.fronts[index] < len(arrived) and arrived[self.fronts[index]] < oldest_kept:
                self.fronts[index] += 1
                self.lost += 1
                self.first_loss = self.first_loss or self.now

    def _oldest(self) -> int | None:
        """The partition with the oldest message that waits."""
        heads = {
            arrived[front]: index
            for index, (arrived, front) in enumerate(zip(self.arrived_at, self.fronts, strict=True))
            if front < len(arrived)
        }
        return heads[min(heads)] if heads else None
