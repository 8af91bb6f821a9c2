"""The fields of topics and subscriptions as SQL, with the same values as in responses.

`tests/integration/storage/test_listings.py` compares the values of SQL and of responses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import Enum, StrEnum
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Double, Numeric, Text, cast, func
from sqlalchemy.orm import InstrumentedAttribute

from app.domain.catalogue.monitoring import Monitoring
from app.domain.catalogue.subscription import FIELD_NAMES, DeliveryPolicy, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.trace import TrackingMode
from app.storage.tables import SubscriptionRow, TopicRow

_MILLISECOND: Final = timedelta(milliseconds=1)
_SECOND: Final = timedelta(seconds=1)


class Of(StrEnum):
    """The type of a field's values.

    A field of the type FLAG always has a value. Other fields may have none. A RATE is a sum of
    fractions, so its value is not exact.
    """

    TEXT = "TEXT"
    FLAG = "FLAG"
    INTEGER = "INTEGER"
    DOUBLE = "DOUBLE"
    RATE = "RATE"


@dataclass(frozen=True, slots=True)
class Column:
    """The SQL expression for a field, and the type of its values."""

    sql: Any
    of: Of = Of.TEXT


Columns = Mapping[str, Column]
"""Columns by the name of the field, a dotted path into the responses."""


def _epoch(column: InstrumentedAttribute[Any]) -> Column:
    return Column(cast(func.extract("epoch", column), Double), Of.DOUBLE)


def _owned(row: type[TopicRow] | type[SubscriptionRow]) -> Columns:
    return {
        "description": Column(row.description),
        "owner.source": Column(row.owner_source),
        "owner.id": Column(row.owner_id),
        "createdAt": _epoch(row.created_at),
        "modifiedAt": _epoch(row.modified_at),
    }


def _defaults(kind: type) -> Mapping[str, Any]:
    return {each.name: each.default for each in fields(kind)}


class _Stored:
    """Makes the SQL for settings that are stored in a JSON column.

    If a setting is not stored, the SQL has the setting's default.
    """

    def __init__(self, column: Any, defaults: Mapping[str, Any]) -> None:  # noqa: ANN401 - any expression of SQLAlchemy
        self._column = column
        self._defaults = defaults

    def text(self, name: str) -> Column:
        return Column(self._or_default(name, self._column[name].astext, Text))

    def flag(self, name: str) -> Column:
        stored = cast(self._column[name].astext, Boolean)
        return Column(self._or_default(name, stored, Boolean), Of.FLAG)

    def integer(self, name: str) -> Column:
        stored = cast(self._column[name].astext, BigInteger)
        return Column(self._or_default(name, stored, BigInteger), Of.INTEGER)

    def double(self, name: str) -> Column:
        stored = cast(self._column[name].astext, Double)
        return Column(self._or_default(name, stored, Double), Of.DOUBLE)

    def span(self, name: str, unit: timedelta) -> Column:
        """Return the SQL for a length of time, in whole units of `unit`, rounded down.

        The stored length of time is in seconds.
        """
        stored = cast(self._column[name].astext, Numeric) * (_SECOND // unit)
        whole = cast(func.floor(stored), BigInteger)
        default = self._defaults[name]
        if default is None:
            return Column(whole, Of.INTEGER)
        return Column(func.coalesce(whole, default // unit), Of.INTEGER)

    def _or_default(self, name: str, stored: Any, kind: Any) -> Any:  # noqa: ANN401 - any expression of SQLAlchemy
        default = self._defaults[name]
        value = default.value if isinstance(default, Enum) else default
        return stored if value is None else func.coalesce(stored, cast(value, kind))


def _traced(stored: _Stored) -> Columns:
    mode = stored.text("tracking")
    return {
        "trackingMode": mode,
        "trackingEnabled": Column(mode.sql != TrackingMode.OFF.value, Of.FLAG),
    }


def _topic_columns() -> Columns:
    stored = _Stored(TopicRow.settings, _defaults(Topic))
    return {
        "name": Column(TopicRow.name),
        "partitions": Column(TopicRow.partitions, Of.INTEGER),
        "adopted": stored.flag("adopted"),
        "ack": stored.text("ack"),
        "contentType": stored.text("content_type"),
        "alternateTopic": stored.text("alternate_topic"),
        "maxMessageSize": stored.integer("message_size_max"),
        "throughputQuota": stored.integer("throughput_quota"),
        "subscribingRestricted": stored.flag("subscribing_restricted"),
        "migratedFromJsonType": stored.flag("migrated_from_json"),
        **_traced(stored),
        **_owned(TopicRow),
    }


_TEXTS: Final = {
    "mode": "mode",
    "deliveryType": "delivery_type",
    "batchFormat": "batch_format",
    "contentMode": "content_mode",
    "contentType": "content_type",
    "ordering": "ordering",
    "failureExpression": "failure_expression",
}
_FLAGS: Final = {
    "http2Enabled": "http2",
    "suspendOnGone": "suspend_on_gone",
    "subscriptionIdentityHeadersEnabled": "identity_headers",
    "idempotencyKeyEnabled": "idempotency_key",
    "autoDeleteWithTopicEnabled": "auto_delete",
}
_POLICY_FLAGS: Final = ("retry_client_errors", "adaptive_rate", "first_retry_immediate")
_POLICY_SPANS: Final = {
    "message_ttl": _SECOND,
    "request_timeout": _MILLISECOND,
    "message_backoff": _MILLISECOND,
    "backoff_interval_max": _SECOND,
    "heartbeat_max": _SECOND,
    "publish_ttl": _SECOND,
    "exhausted_wait_max": _SECOND,
    "sending_delay": _MILLISECOND,
    "batch_time": _MILLISECOND,
}
_POLICY_OTHERS: Final = {
    "backoff_multiplier": _Stored.double,
    "on_exhausted": _Stored.text,
    **dict.fromkeys(_POLICY_FLAGS, _Stored.flag),
}


def _policy_columns() -> Columns:
    stored = _Stored(SubscriptionRow.policy, _defaults(DeliveryPolicy))

    def column(name: str) -> Column:
        if unit := _POLICY_SPANS.get(name):
            return stored.span(name, unit)
        return _POLICY_OTHERS.get(name, _Stored.integer)(stored, name)

    named = {field: column(name) for name, field in FIELD_NAMES.items()}
    named["backoffMaxIntervalMillis"] = stored.span("backoff_interval_max", _MILLISECOND)
    return {f"subscriptionPolicy.{field}": each for field, each in named.items()}


def _subscription_columns() -> Columns:
    row = SubscriptionRow
    stored = _Stored(row.settings, _defaults(Subscription))
    monitoring = _Stored(row.settings["monitoring"], _defaults(Monitoring))
    return {
        "name": Column(row.name),
        "topicName": Column(row.topic),
        # The endpoint of a subscription. A mask replaces its password.
        "endpoint": Column(row.endpoint),
        "contact": Column(row.contact),
        "supportTeam": Column(row.owner_id),
        "state": Column(row.state),
        **{field: stored.text(name) for field, name in _TEXTS.items()},
        **{field: stored.flag(name) for field, name in _FLAGS.items()},
        "deadLetter.topic": Column(row.settings["dead_letter"]["topic"].astext),
        "monitoringDetails.severity": monitoring.text("severity"),
        "monitoringDetails.reaction": monitoring.text("reaction"),
        **_traced(stored),
        **_policy_columns(),
        **_owned(row),
    }


TOPIC_COLUMNS: Final[Columns] = _topic_columns()
SUBSCRIPTION_COLUMNS: Final[Columns] = _subscription_columns()
