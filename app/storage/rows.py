"""Rows to domain values and back."""

from dataclasses import fields
from typing import Any, Final

from app.domain.owner import Owner
from app.domain.subscription import DeliveryPolicy, State, Subscription
from app.domain.topic import Topic
from app.storage.models import Json, SubscriptionRow, TopicRow
from app.storage.settings import from_json, to_json

# The fields that have columns; all others are kept in the column `settings`.
_TOPIC_COLUMNS: Final = frozenset(
    {"name", "owner", "description", "partitions", "created_at", "modified_at", "change"}
)
_SUBSCRIPTION_COLUMNS: Final = frozenset(
    {
        "id",
        "topic",
        "name",
        "endpoint",
        "state",
        "owner",
        "description",
        "contact",
        "policy",
        "created_at",
        "modified_at",
        "change",
        "start",
    }
)


def topic_of(row: TopicRow) -> Topic:
    """The topic in the row."""
    return Topic(
        name=row.name,
        owner=Owner(source=row.owner_source, id=row.owner_id),
        description=row.description,
        partitions=row.partitions,
        created_at=row.created_at,
        modified_at=row.modified_at,
        change=row.change,
        **_settings_in(Topic, row.settings, _TOPIC_COLUMNS),
    )


def topic_values(topic: Topic) -> dict[str, Any]:
    """What of the topic can be set."""
    return {
        "description": topic.description,
        "owner_source": topic.owner.source,
        "owner_id": topic.owner.id,
        "partitions": topic.partitions,
        "settings": to_json(topic, _settings_of(Topic, _TOPIC_COLUMNS)),
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
        **_settings_in(Subscription, row.settings, _SUBSCRIPTION_COLUMNS),
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
        "settings": to_json(subscription, _settings_of(Subscription, _SUBSCRIPTION_COLUMNS)),
        "start": {str(index): offset for index, offset in subscription.start.items()},
    }


def _settings_of(kind: type, columns: frozenset[str]) -> list[str]:
    return [field.name for field in fields(kind) if field.name not in columns]


def _settings_in(kind: type, stored: Json, columns: frozenset[str]) -> dict[str, Any]:
    found = from_json(kind, stored)
    return {name: found[name] for name in found.keys() - columns}
