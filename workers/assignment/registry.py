"""The topics and subscriptions that this worker knows, in their last known state."""

from collections.abc import Collection, Iterable

from app.domain.catalogue.changes import NO_CHANGE, Changes
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic  # noqa: TC001 - TYPE_CHECKING would gain nothing
from app.domain.message import Partition
from workers.consumer.subscription_consumers import CursorKey


class Registry:
    """Finds topics and subscriptions by name and id. Pure: the state changes only in `apply`."""

    def __init__(self) -> None:
        self.last = NO_CHANGE
        self.topics: dict[str, Topic] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._by_topic: dict[str, dict[str, Subscription]] = {}

    def apply(self, changes: Changes) -> None:
        """Apply the changes."""
        for subscription_id in changes.deleted_subscription_ids:
            self._remove(subscription_id)
        for name in changes.deleted_topics:
            self.topics.pop(name, None)
        for topic in changes.topics:
            self.topics[topic.name] = topic
        for subscription in changes.subscriptions:
            self._subscriptions[subscription.id] = subscription
            self._by_topic.setdefault(subscription.topic, {})[subscription.id] = subscription
        self.last = changes.last

    def with_deletions(self, changes: Changes) -> Changes:
        """Return the same changes. If they are complete, they also name what was deleted."""
        return changes.with_deletions(self.topics, self._subscriptions)

    def get(self, subscription_id: str) -> Subscription | None:
        """Return the subscription; None if it was deleted."""
        return self._subscriptions.get(subscription_id)

    def of_topic(self, topic: str) -> Collection[Subscription]:
        """Return the topic's subscriptions."""
        return self._by_topic.get(topic, {}).values()

    def wanted(self, owned: Iterable[Partition]) -> set[CursorKey]:
        """Return the cursors that an owner of these partitions must have open."""
        return {
            CursorKey(subscription.id, partition)
            for partition in owned
            for subscription in self.of_topic(partition.topic)
            if not subscription.rests
        }

    def resting_groups(
        self, owned: Iterable[Partition], *, closing: Collection[CursorKey] = ()
    ) -> dict[str, list[Partition]]:
        """Return the consumer groups of suspended subscriptions, with their owned partitions.

        Partitions in which the subscription's cursor is still `closing` are left out.
        """
        groups: dict[str, list[Partition]] = {}
        for partition in owned:
            for subscription in self.of_topic(partition.topic):
                if subscription.rests and CursorKey(subscription.id, partition) not in closing:
                    groups.setdefault(subscription.group, []).append(partition)
        return groups

    def _remove(self, subscription_id: str) -> None:
        subscription = self._subscriptions.pop(subscription_id, None)
        if subscription is not None:
            self._by_topic[subscription.topic].pop(subscription_id, None)
