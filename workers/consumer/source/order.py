"""Which messages must wait for others: by Partition-Key, or by partition. Pure: no I/O, no clock.

What goes first is delivered or discarded before what comes after it is begun. This holds over
crashes, too: a reader that comes next begins with the first message that is not finished, and no
commit calls a message finished while one before it in its order is not.
"""

from collections import deque
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from app.domain.catalogue.fetch import FetchPolicy
from app.domain.catalogue.subscription import DeliveryPolicy, Ordering, Subscription
from app.domain.delivery import Discarded
from app.domain.message import Message
from workers.consumer.commit.cursor import Cursor


class Opened(NamedTuple):
    """A message that a cursor has opened, and since when its time to live runs (epoch ms).

    One that is `refused` is not sent. The time to live of one that was `kept` runs from when it is
    handed out: it waited for its turn only, and behind none that failed.
    """

    cursor: Cursor
    message: Message
    opened_ms: int
    refused: Discarded | None = None
    kept: bool = False

    def begun(self, now_ms: int) -> "Opened":
        """As it is when it is handed out only now: its time to live runs from now on."""
        since_ms = self.cursor.start_ttl(self.message, now_ms)
        return self if since_ms is None else self._replace(opened_ms=since_ms)


class Order(Protocol):
    """The order of one subscription's messages. Cursors of different partitions have none."""

    def limit(self, policy: DeliveryPolicy, fetch: FetchPolicy) -> None:
        """Keep to the limits of these from now on."""

    def may_open(self) -> bool:
        """Whether any more messages may be opened now."""

    def may_read(self, cursor: Cursor) -> bool:
        """Whether the next message of `cursor` may be opened now."""

    def admit(self, opened: Opened) -> Opened | None:
        """What may go at once; if that is not `opened`, it is kept until its turn comes."""

    def failed(self, cursor: Cursor, message: Message) -> None:
        """It is to be tried again."""

    def finished(self, cursor: Cursor, message: Message) -> Opened | None:
        """It is delivered or discarded; returns the one that may go now, if one waited for it."""

    def release(self, cursors: AbstractSet[Cursor]) -> None:
        """Forget all of `cursors`, which are closing."""

    def drain(self) -> Iterable[Opened]:
        """Give out all that is kept, in the order in which it came: another order holds."""


def order_of(subscription: Subscription) -> Order | None:
    """The order that a subscription asks for; None for none at all."""
    match subscription.ordering:
        case Ordering.NONE:
            return None
        case Ordering.KEY:
            return KeyOrder(subscription.policy, subscription.fetch)
        case Ordering.PARTITION:
            return PartitionOrder()


class _Lane:
    """The messages of one key that are not finished: one on its way, the others behind it."""

    __slots__ = ("behind", "failing", "head")

    def __init__(self, head: Message) -> None:
        self.head = head
        self.failing = False
        self.behind: deque[Opened] = deque()


class KeyOrder:
    """Messages with the same key go one after the other; those without a key are free.

    A partition with more than `parked_keys_max` failing keys is not read on, nor is any while
    `retry_buffer_max` messages wait behind others, or `buffer_max` behind others that do not fail.
    """

    def __init__(self, policy: DeliveryPolicy, fetch: FetchPolicy) -> None:
        self._policy = policy
        self._fetch = fetch
        self._lanes: dict[Cursor, dict[bytes, _Lane]] = {}
        self._failing: dict[Cursor, int] = {}
        self.waiting = 0
        # Of those that wait, the ones behind a key that fails.
        self._behind_failing = 0

    def limit(self, policy: DeliveryPolicy, fetch: FetchPolicy) -> None:
        """Keep to the limits of these from now on."""
        self._policy = policy
        self._fetch = fetch

    def may_open(self) -> bool:
        """Whether there is room for one more that has to wait."""
        buffered = self.waiting - self._behind_failing
        return self.waiting < self._policy.retry_buffer_max and buffered < self._fetch.buffer_max

    def may_read(self, cursor: Cursor) -> bool:
        """Whether not too many keys of the partition fail."""
        return self._failing.get(cursor, 0) <= self._policy.parked_keys_max

    def admit(self, opened: Opened) -> Opened | None:
        """`opened`, if no message with its key is under way."""
        key = opened.message.key
        if key is None:
            return opened
        lanes = self._lanes.setdefault(opened.cursor, {})
        lane = lanes.get(key)
        if lane is None:
            lanes[key] = _Lane(opened.message)
            return opened
        lane.behind.append(opened)
        self.waiting += 1
        self._behind_failing += lane.failing
        return None

    def failed(self, cursor: Cursor, message: Message) -> None:
        """Its key is failing until it is finished."""
        lane = self._lane_of(cursor, message)
        if lane is not None and not lane.failing:
            lane.failing = True
            self._behind_failing += len(lane.behind)
            self._failing[cursor] = self._failing.get(cursor, 0) + 1

    def finished(self, cursor: Cursor, message: Message) -> Opened | None:
        """The next one with its key."""
        lane = self._lane_of(cursor, message)
        if lane is None:
            return None
        failed = lane.failing
        if failed:
            lane.failing = False
            self._behind_failing -= len(lane.behind)
            self._failing[cursor] -= 1
        if not lane.behind:
            del self._lanes[cursor][message.key or b""]
            return None
        following = lane.behind.popleft()
        lane.head = following.message
        self.waiting -= 1
        return following if failed else following._replace(kept=True)

    def release(self, cursors: AbstractSet[Cursor]) -> None:
        """Forget the keys of their partitions."""
        for cursor in cursors:
            self._failing.pop(cursor, None)
            for lane in self._lanes.pop(cursor, {}).values():
                self.waiting -= len(lane.behind)
                self._behind_failing -= len(lane.behind) * lane.failing

    def drain(self) -> Iterable[Opened]:
        """All that wait, each partition by offset."""
        lanes = [lane for lanes in self._lanes.values() for lane in lanes.values()]
        self._lanes, self._failing, self.waiting, self._behind_failing = {}, {}, 0, 0
        kept = [opened for lane in lanes for opened in lane.behind]
        return sorted(kept, key=lambda opened: opened.message.offset)

    def _lane_of(self, cursor: Cursor, message: Message) -> _Lane | None:
        """The lane that `message` is the head of, if it is one's."""
        if message.key is None:
            return None
        lane = self._lanes.get(cursor, {}).get(message.key)
        return lane if lane is not None and lane.head is message else None


class PartitionOrder:
    """One message of a partition at a time; the next is not even opened before."""

    def __init__(self) -> None:
        self._under_way: dict[Cursor, Message] = {}

    def limit(self, policy: DeliveryPolicy, fetch: FetchPolicy) -> None:
        """There are no limits to keep to."""

    def may_open(self) -> bool:
        """Always: nothing is kept."""
        return True

    def may_read(self, cursor: Cursor) -> bool:
        """Whether none of the partition is under way."""
        return cursor not in self._under_way

    def admit(self, opened: Opened) -> Opened:
        """It goes at once: it would not have been opened else."""
        self._under_way[opened.cursor] = opened.message
        return opened

    def failed(self, cursor: Cursor, message: Message) -> None:
        """It stays under way."""

    def finished(self, cursor: Cursor, message: Message) -> Opened | None:
        """None: the partition may be read on."""
        if self._under_way.get(cursor) is message:
            del self._under_way[cursor]
        return None

    def release(self, cursors: AbstractSet[Cursor]) -> None:
        """Forget what is under way."""
        for cursor in cursors:
            self._under_way.pop(cursor, None)

    def drain(self) -> Iterable[Opened]:
        """Nothing is kept."""
        return ()
