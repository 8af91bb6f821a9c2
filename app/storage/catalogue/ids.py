"""Looks up topics and ids of subscriptions by name, without reading all their fields."""

from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.errors import SubscriptionNotFoundError, TopicNotFoundError

_TOPIC: Final = "SELECT EXISTS (SELECT FROM topics WHERE name = %(topic)s)"
_SUBSCRIPTION: Final = f"""
SELECT ({_TOPIC}) AS topic_there,
  (SELECT id FROM subscriptions WHERE topic = %(topic)s AND name = %(name)s) AS id
"""  # noqa: S608 - the statement is made of constants only


async def require_topic(connection: AsyncConnection, topic: str) -> None:
    """Check that the topic exists.

    Raises:
        TopicNotFoundError: The topic does not exist.
    """
    found = await connection.exec_driver_sql(_TOPIC, {"topic": topic})
    if not found.scalar():
        raise no_topic(topic)


async def subscription_id(connection: AsyncConnection, topic: str, name: str) -> str:
    """Return the id of the topic's subscription with the name `name`.

    Raises:
        TopicNotFoundError: The topic does not exist.
        SubscriptionNotFoundError: The subscription does not exist.
    """
    requested = {"topic": topic, "name": name}
    row = (await connection.exec_driver_sql(_SUBSCRIPTION, requested)).mappings().one()
    if not row["topic_there"]:
        raise no_topic(topic)
    if row["id"] is None:
        raise no_subscription(topic, name)
    return str(row["id"])


def no_topic(topic: str) -> TopicNotFoundError:
    """Return the error for a missing topic."""
    return TopicNotFoundError(f"Topic {topic} does not exist")


def no_subscription(topic: str, name: str) -> SubscriptionNotFoundError:
    """Return the error for a missing subscription."""
    return SubscriptionNotFoundError(f"Subscription {name} of {topic} does not exist")
