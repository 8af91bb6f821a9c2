"""The subscriptions of each topic in memory. Changes in the database keep them up to date."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from app.domain.catalogue.changes import Changes
from app.domain.catalogue.filters import Filter
from app.domain.catalogue.subscription import State


class TopicSubscriber(NamedTuple):
    """The parts of a subscription that publishing needs."""

    name: str
    active: bool
    filters: tuple[Filter, ...] = ()


class Subscribers:
    """The subscriptions of every topic, and whether each subscription is active."""

    def __init__(self) -> None:
        self._topic_of: dict[str, str] = {}
        self._of: dict[str, dict[str, TopicSubscriber]] = {}

    @property
    def ids(self) -> Collection[str]:
        """The ids of all subscriptions."""
        return self._topic_of.keys()

    def count(self, topic: str) -> int:
        """Return the number of all subscriptions of the topic."""
        return len(self.of(topic))

    def some_active(self, topic: str) -> bool:
        """Whether any subscription of the topic is active."""
        return any(subscriber.active for subscriber in self.of(topic).values())

    def some_unfiltered(self, topic: str) -> bool:
        """Whether any active subscription of the topic has no filters."""
        return any(each.active and not each.filters for each in self.of(topic).values())

    def of(self, topic: str) -> Mapping[str, TopicSubscriber]:
        """Return the topic's current subscriptions by id."""
        return self._of.get(topic, {})

    def apply(self, changes: Changes) -> None:
        """Apply changes of subscriptions. The caller passes them in the order of their numbers."""
        for gone in changes.deleted_subscription_ids:
            self._forget(gone)
        for subscription in changes.subscriptions:
            self._topic_of[subscription.id] = subscription.topic
            active = subscription.state is not State.SUSPENDED
            known = self._of.setdefault(subscription.topic, {})
            known[subscription.id] = TopicSubscriber(
                subscription.name, active, subscription.filters
            )

    def _forget(self, subscription_id: str) -> None:
        topic = self._topic_of.pop(subscription_id, None)
        if topic is not None:
            self._of[topic].pop(subscription_id)
            if not self._of[topic]:
                del self._of[topic]
