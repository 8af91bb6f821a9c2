"""Who subscribes to each topic, as the change feed says: counts for those who publish."""

from app.domain.feed import Changes
from app.domain.subscription import State


class Subscribers:
    """The subscriptions of every topic, and which of them are active."""

    def __init__(self) -> None:
        self._topic_of: dict[str, str] = {}
        self._active: dict[str, dict[str, bool]] = {}

    def count(self, topic: str) -> int:
        """All subscriptions of the topic."""
        return len(self._active.get(topic, ()))

    def some_active(self, topic: str) -> bool:
        """Whether one of them is not suspended."""
        return any(self._active.get(topic, {}).values())

    def apply(self, changes: Changes) -> None:
        """Take in what changed, which must come in the order of the feed."""
        for gone in changes.deleted_subscription_ids:
            self._forget(gone)
        for subscription in changes.subscriptions:
            self._topic_of[subscription.id] = subscription.topic
            active = self._active.setdefault(subscription.topic, {})
            active[subscription.id] = subscription.state is not State.SUSPENDED

    def _forget(self, subscription_id: str) -> None:
        topic = self._topic_of.pop(subscription_id, None)
        if topic is not None:
            self._active[topic].pop(subscription_id)
            if not self._active[topic]:
                del self._active[topic]
