"""Rows to domain values and back."""

from typing import Any

from app.domain.owner import Owner
from app.domain.subscription import DeliveryPolicy, State, Subscription
from app.domain.topic import Topic
from app.storage.models import SubscriptionRow, TopicRow
from app.storage.settings import from_json, to_json

# The settings of a topic that have no column.
_TOPIC_SETTINGS = ("retention", "ack", "message_size_max")


def topic_of(row: TopicRow) -> Topic:
    """The topic in the row."""
    settings = from_json(Topic, row.settings)
    return Topic(
        name=row.name,
        owner=Owner(source=row.owner_source, id=row.owner_id),
        description=row.description,
        partitions=row.partitions,
        created_at=row.created_at,
        modified_at=row.modified_at,
        change=row.change,
        **{name: settings[name] for name in _TOPIC_SETTINGS if name in settings},
    )


def topic_values(topic: Topic) -> dict[str, Any]:
    """What of the topic can be set."""
    return {
        "description": topic.description,
        "owner_source": topic.owner.source,
        "owner_id": topic.owner.id,
        "partitions": topic.partitions,
        "settings": to_json(topic, _TOPIC_SETTINGS),
    }


def subscription_of(row: SubscriptionRow) -> Subscription:
    """The subscription in the row."""
    return Subscription(
        id=row.id,
        topic=row.topic,
        name=row.name,
        endpoint=row.endpoint,
        state=State(row.state),
        owner=Owner(source=row.owner_source, id=row.owner_id),
        description=row.description,
        contact=row.contact,
        policy=DeliveryPolicy(**from_json(DeliveryPolicy, row.policy)),
        created_at=row.created_at,
        modified_at=row.modified_at,
        change=row.change,
        start={int(index): offset for index, offset in row.start.items()},
    )


def subscription_values(subscription: Subscription) -> dict[str, Any]:
    """What of the subscription can be set."""
    return {
        "endpoint": subscription.endpoint,
        "state": subscription.state.value,
        "owner_source": subscription.owner.source,
        "owner_id": subscription.owner.id,
        "description": subscription.description,
        "contact": subscription.contact,
        "policy": to_json(subscription.policy),
        "start": {str(index): offset for index, offset in subscription.start.items()},
    }
