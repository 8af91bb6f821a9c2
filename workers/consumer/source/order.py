"""Which messages wait for other messages, by partition key or by partition (no I/O, no clock).

A message is sent only after the earlier messages in its order are delivered or discarded. A crash
does not change the order. The partition's next owner starts with the first unfinished message, and
no commit marks a message as finished while an earlier one in its order is unfinished.
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
    """An open message that a cursor took from the log.

    Attributes:
        cursor: The cursor that took the message.
        message: The message.
        opened_ms: When the time to live of the message starts (epoch ms).
        refused: The reason to discard the message without an attempt. None if the message is sent.
        kept: Whether the time to live starts only when the message is sent. This is so for a batch,
            and for a message that waited for an earlier message which did not fail.
    """

    cursor: Cursor
    message: Message
    opened_ms: int
    refused: Discarded | None = None
    kept: bool = False

    def begun(self, now_ms: int) -> "Opened":
        """Return the message with a time to live that starts now."""
        since_ms = self.cursor.start_ttl(self.message, now_ms)
        return self if since_ms is None else self._replace(opened_ms=since_ms)


class Order(Protocol):
    """The order in which a subscription's messages are sent.

    Messages of different partitions do not wait for each other.
    """

    def limit(self, policy: DeliveryPolicy, fetch: FetchPolicy) -> None:
        """Use the limits of these settings from now on."""

    def may_open(self) -> bool:
        """Whether any more messages may be opened now, in any partition."""

    def may_read(self, cursor: Cursor) -> bool:
        """Whether the next message of `cursor` may be opened now."""

    def admit(self, opened: Opened) -> Opened | None:
        """Return a message that may be sent now.

        If `opened` must wait for earlier messages, store it, and return another message or None.
        """

    def failed(self, cursor: Cursor, message: Message) -> None:
        """Called when the message will be retried."""

    def finished(self, cursor: Cursor, message: Message) -> Opened | None:
        """Called when the message is delivered or discarded.

        Returns:
            The next message that waited for the finished message, if there is one.
        """

    def release(self, cursors: AbstractSet[Cursor]) -> None:
        """Remove all messages of closing `cursors` from the order."""

    def drain(self) -> Iterable[Opened]:
        """Remove all waiting messages, and return them in log order.

        Called when another order replaces this one.
        """


def order_of(subscription: Subscription) -> Order | None:
    """Return the order that the subscription's settings request; None for no order."""
    match subscription.ordering:
        case Ordering.NONE:
            return None
        case Ordering.KEY:
            return KeyOrder(subscription.policy, subscription.fetch)
        case Ordering.PARTITION:
            return PartitionOrder()


class _Lane:
    """The unfinished messages of one key. The first is in delivery, and the others wait for it."""

    __slots__ = ("behind", "failing", "head")

    def __init__(self, head: Message) -> None:
        self.head = head
        self.failing = False
        self.behind: deque[Opened] = deque()


class KeyOrder:
    """Sends messages with the same key one after the other. Messages without a key do not wait.

    A key is failing while its first unfinished message waits for a retry. There are three limits. A
    partition with more than `parked_keys_max` failing keys is not read further. No partition is
    read further while `retry_buffer_max` messages wait for earlier messages. The same is true while
    `buffer_max` messages wait whose keys are not failing.
    """

    def __init__(self, policy: DeliveryPolicy, fetch: FetchPolicy) -> None:
        self._policy = policy
        self._fetch = fetch
        self._lanes: dict[Cursor, dict[bytes, _Lane]] = {}
        self._failing: dict[Cursor, int] = {}
        self.waiting = 0
        # The number of messages that wait for a failing message with the same key.
        self._behind_failing = 0

    def limit(self, policy: DeliveryPolicy, fetch: FetchPolicy) -> None:
        """Use the limits of these settings from now on."""
        self._policy = policy
        self._fetch = fetch

    def may_open(self) -> bool:
        """Whether one more message may wait for earlier messages."""
        buffered = self.waiting - self._behind_failing
        return self.waiting < self._policy.retry_buffer_max and buffered < self._fetch.buffer_max

    def may_read(self, cursor: Cursor) -> bool:
        """Whether the partition may be read. It may not if too many of its keys are failing."""
        return self._failing.get(cursor, 0) <= self._policy.parked_keys_max

    def admit(self, opened: Opened) -> Opened | None:
        """Return `opened` if no message with the same key is in delivery.

        Otherwise store it until the earlier messages are finished, and return None.
        """
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
        """Mark the key of the message as failing until the message is finished."""
        lane = self._lane_of(cursor, message)
        if lane is not None and not lane.failing:
            lane.failing = True
            self._behind_failing += len(lane.behind)
            self._failing[cursor] = self._failing.get(cursor, 0) + 1

    def finished(self, cursor: Cursor, message: Message) -> Opened | None:
        """Return the next message with the same key, which may be sent now."""
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
        """Remove the keys of the partitions of these cursors."""
        for cursor in cursors:
            self._failing.pop(cursor, None)
            for lane in self._lanes.pop(cursor, {}).values():
                self.waiting -= len(lane.behind)
                self._behind_failing -= len(lane.behind) * lane.failing

    def drain(self) -> Iterable[Opened]:
        """Remove all waiting messages, and return them in the order of their offsets."""
        lanes = [lane for lanes in self._lanes.values() for lane in lanes.values()]
        self._lanes, self._failing, self.waiting, self._behind_failing = {}, {}, 0, 0
        kept = [opened for lane in lanes for opened in lane.behind]
        return sorted(kept, key=lambda opened: opened.message.offset)

    def _lane_of(self, cursor: Cursor, message: Message) -> _Lane | None:
        """Return the unfinished messages with the key of `message`.

        Return None if `message` is not the first of them.
        """
        if message.key is None:
            return None
        lane = self._lanes.get(cursor, {}).get(message.key)
        return lane if lane is not None and lane.head is message else None


class PartitionOrder:
    """Sends one message of a partition at a time.

    The next message of the partition is opened after the message in delivery is finished.
    """

    def __init__(self) -> None:
        self._under_way: dict[Cursor, Message] = {}

    def limit(self, policy: DeliveryPolicy, fetch: FetchPolicy) -> None:
        """Do nothing, because this order has no limits."""

    def may_open(self) -> bool:
        """Return True, because no opened message waits in this order."""
        return True

    def may_read(self, cursor: Cursor) -> bool:
        """Whether no message of the cursor's partition is in delivery."""
        return cursor not in self._under_way

    def admit(self, opened: Opened) -> Opened:
        """Return `opened` immediately, because only messages that may be sent are opened."""
        self._under_way[opened.cursor] = opened.message
        return opened

    def failed(self, cursor: Cursor, message: Message) -> None:
        """Do nothing: the message stays in delivery."""

    def finished(self, cursor: Cursor, message: Message) -> Opened | None:
        """Allow reading the partition again. Return None, because no opened message waits."""
        if self._under_way.get(cursor) is message:
            del self._under_way[cursor]
        return None

    def release(self, cursors: AbstractSet[Cursor]) -> None:
        """Remove the messages of `cursors` that are in delivery."""
        for cursor in cursors:
            self._under_way.pop(cursor, None)

    def drain(self) -> Iterable[Opened]:
        """Return nothing, because no opened message waits in this order."""
        return ()
