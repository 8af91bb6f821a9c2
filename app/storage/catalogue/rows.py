"""Converts rows of the database to topics and subscriptions, and back."""

from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

from app.domain.catalogue.subscription import DeliveryPolicy, State, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.errors import SecretUnreadableError
from app.domain.owner import Owner
from app.domain.secrets import masked_url, password_of, with_password
from app.storage.json_values import from_json, to_json
from app.storage.sealing import Sealing
from app.storage.tables import Json, SubscriptionRow, TopicRow
from app.vault import Vault

# The fields of topics and subscriptions that have a column of their own. All other fields are in
# the column `settings`.
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
        "locked",
        "oauth_provider",
    }
)
_POLICY: Final = frozenset(each.name for each in fields(DeliveryPolicy))
# The maximum number of cached delivery policies. Many subscriptions have equal policies.
_POLICIES_MAX: Final = 1_000
# The name of the field that stores the password of an endpoint. The column `endpoint` has a mask in
# place of the password.
_PASSWORD: Final = "endpoint_password"  # noqa: S105 - the name of a field


def topic_of(row: TopicRow) -> Topic:
    """Return the topic in the row."""
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
    """Return the values of the topic that are written to its row."""
    return {
        "description": topic.description,
        "owner_source": topic.owner.source,
        "owner_id": topic.owner.id,
        "partitions": topic.partitions,
        "settings": to_json(topic, _settings_of(Topic, _TOPIC_COLUMNS)),
    }


def subscription_of(row: SubscriptionRow, vault: Vault) -> Subscription:
    """Return the subscription. It is marked as locked if one of its secrets cannot be decrypted."""
    return opened_subscription(row, sealing_of(vault, row.id))


def opened_subscription(row: SubscriptionRow, sealing: Sealing) -> Subscription:
    """Return the subscription with the secrets that `sealing` could decrypt."""
    settings = _settings_in(Subscription, row.settings, _SUBSCRIPTION_COLUMNS, sealing=sealing)
    return Subscription(
        id=row.id,
        topic=row.topic,
        name=row.name,
        endpoint=_endpoint_in(row, sealing),
        state=State(row.state),
        owner=Owner(source=row.owner_source, id=row.owner_id),
        description=row.description,
        contact=row.contact,
        policy=_policy(tuple(each for each in row.policy.items() if each[0] in _POLICY)),
        created_at=row.created_at,
        modified_at=row.modified_at,
        change=row.change,
        start={int(index): offset for index, offset in row.start.items()},
        # Set `locked`, the reason why a secret cannot be decrypted, after all other fields. Only
        # then has every secret been decrypted or found unreadable.
        locked=sealing.unreadable,
        **settings,
    )


def subscription_values(subscription: Subscription, vault: Vault) -> dict[str, Any]:
    """Return the values of the subscription that are written to its row.

    Raises:
        SecretKeyMissingError: No secret key is configured.
        SecretUnreadableError: A stored secret could not be decrypted.
    """
    if subscription.locked:
        raise SecretUnreadableError(subscription.locked)
    sealing = sealing_of(vault, subscription.id)
    names = _settings_of(Subscription, _SUBSCRIPTION_COLUMNS)
    return {
        "endpoint": masked_url(subscription.endpoint),
        "state": subscription.state.value,
        "owner_source": subscription.owner.source,
        "owner_id": subscription.owner.id,
        "description": subscription.description,
        "contact": subscription.contact,
        "policy": to_json(subscription.policy),
        "settings": to_json(subscription, names, sealing=sealing)
        | _sealed_password(subscription.endpoint, sealing),
        "start": {str(index): offset for index, offset in subscription.start.items()},
    }


def sealing_of(vault: Vault, subscription_id: str) -> Sealing:
    """Return the object that encrypts and decrypts the secrets in that subscription's row."""
    return Sealing(vault, table=SubscriptionRow.__tablename__, row=subscription_id)


@lru_cache(maxsize=_POLICIES_MAX)
def _policy(stored: tuple[tuple[str, Any], ...]) -> DeliveryPolicy:
    """Return the policy with these stored settings, from a cache.

    Most subscriptions have one of a few policies. A policy never changes.
    """
    return DeliveryPolicy(**from_json(DeliveryPolicy, dict(stored)))


def _endpoint_in(row: SubscriptionRow, sealing: Sealing) -> str:
    written = password_of(row.endpoint)
    if written is None:
        return row.endpoint
    kept = row.settings.get(_PASSWORD, written)
    return with_password(row.endpoint, sealing.open(kept, _PASSWORD))


def _sealed_password(endpoint: str, sealing: Sealing) -> Json:
    password = password_of(endpoint)
    return {} if password is None else {_PASSWORD: sealing.seal(password, _PASSWORD)}


def _settings_of(kind: type, columns: frozenset[str]) -> list[str]:
    return [field.name for field in fields(kind) if field.name not in columns]


def _settings_in(
    kind: type, stored: Json, columns: frozenset[str], *, sealing: Sealing | None = None
) -> dict[str, Any]:
    found = from_json(kind, stored, sealing=sealing)
    return {name: found[name] for name in found.keys() - columns}
