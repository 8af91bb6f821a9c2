"""Topic bodies (Hermes' Topic, with the same limits)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import Field

from app.api.bodies.base import (
    Ignored,
    JsonObject,
    OtherFields,
    OwnSchema,
    Rules,
    Schema,
    Text,
    Unsupported,
    checked,
    ignored_fields,
    merged,
    off,
    only,
    parse,
)
from app.api.management.fields.owner import OwnerBody
from app.api.management.fields.tracking import (
    ENABLED_TEXT,
    MODE_TEXT,
    Mode,
    by_enabled,
    tracking_of,
)
from app.domain.catalogue.adoption import require_kept
from app.domain.catalogue.headers import AUTHORIZATION, HEADERS_MAX
from app.domain.catalogue.offline_storage import (
    RETENTION_DAYS_DEFAULT,
    RETENTION_DAYS_MAX,
    OfflineStorage,
)
from app.domain.catalogue.schema import SCHEMA_LENGTH_MAX, ContentType, TopicSchema
from app.domain.catalogue.topic import (
    DEDUPLICATION_ENTRIES_MAX,
    DEDUPLICATION_TTL_MAX,
    MESSAGE_SIZE_MAX,
    MESSAGE_SIZE_MIN,
    PARTITIONS_MAX,
    PUBLISHER_LENGTH_MAX,
    PUBLISHERS_MAX,
    RETENTION_MAX,
    THROUGHPUT_QUOTA_MAX,
    THROUGHPUT_QUOTA_MIN,
    Ack,
    Deduplication,
    OnDuplicate,
    PublishAuth,
    RetentionUnit,
    Topic,
)
from app.domain.errors import ValidationFailedError
from app.domain.names import topic_name
from app.domain.trace import TrackingMode
from app.filtering.expressions import checked_message_expression
from app.filtering.header_names import require_propagated
from app.schemas.migration import is_migration, migrated_schemas, require_migration
from app.schemas.versions import Registered, first_schema, with_schema, without_schema

Unit = Literal["SECONDS", "MINUTES", "HOURS", "DAYS"]

_UNITS: Final[Mapping[Unit, timedelta]] = {
    "DAYS": timedelta(days=1),
    "HOURS": timedelta(hours=1),
    "MINUTES": timedelta(minutes=1),
    "SECONDS": timedelta(seconds=1),
}
_TEXT_MAX: Final = 10_000
_ID_FIELD: Final = "deduplication.expression"


def _chaos_off(given: object) -> bool:
    return isinstance(given, dict) and given.get("mode", "DISABLED") == "DISABLED"


OTHER_FIELDS: Final = OtherFields(
    read_only=frozenset({"createdAt", "modifiedAt", "schemaVersion"}),
    unsupported={
        "jsonToAvroDryRun": Unsupported(harmless=off),
        "fallbackToRemoteDatacenterEnabled": Unsupported(harmless=off),
        "labels": Unsupported(harmless=only([])),
        "chaos": Unsupported(harmless=_chaos_off, refused=True),
    },
)


class RetentionBody(Schema):
    """How long the log keeps messages."""

    duration: int = Field(default=1, ge=1)
    retention_unit: Unit = "DAYS"

    def to_domain(self) -> timedelta:
        """Return the duration.

        Raises:
            ValidationFailedError: The retention is more than ten years.
        """
        if self.duration > RETENTION_MAX / _UNITS[self.retention_unit]:
            message = f"must be at most {RETENTION_MAX.days} days"
            raise ValidationFailedError.of("retentionTime.duration", message)
        return self.duration * _UNITS[self.retention_unit]

    @classmethod
    def of(cls, retention: timedelta, requested: Unit) -> "RetentionBody":
        """Return the body for `retention`, in the unit that was requested.

        If that gives no whole number (Kafka sets the retention of an adopted topic), the body has
        the largest unit that gives one.
        """
        unit = next(unit for unit in (requested, *_UNITS) if not retention % _UNITS[unit])
        return cls(duration=retention // _UNITS[unit], retention_unit=unit)


def _id_expression(text: str) -> str:
    return checked_message_expression(text, path=_ID_FIELD)


class DeduplicationBody(OwnSchema):
    """A topic's rule: no message is stored again under an id that its publisher already used."""

    expression: Annotated[str, checked(_id_expression)] | None = Field(
        default=None,
        description=(
            "CEL over body, text, headers (propagated ones), key, id, topic and timestamp, whose"
            " value is the id, instead of Idempotency-Key; a message is refused where it has none,"
            " and stored in any case where it is null"
        ),
        examples=["[headers['x-tenant'], body.orderId]"],
    )
    ttl: int = Field(
        default=3600,
        ge=1,
        le=int(DEDUPLICATION_TTL_MAX.total_seconds()),
        description="seconds for which an id is remembered",
    )
    max_entries: int = Field(
        default=100_000,
        ge=1,
        le=DEDUPLICATION_ENTRIES_MAX,
        description="ids that are remembered; of more, the oldest are forgotten within a minute",
    )
    on_duplicate: Literal["ACCEPT", "REFUSE"] = Field(
        default="ACCEPT",
        description=(
            "what is answered for a message that is not stored again: 201 and Angelia-Duplicate, or"
            " 409 DUPLICATE_MESSAGE with the id of the message that was stored"
        ),
    )

    def to_domain(self) -> Deduplication:
        """Return the rule of deduplication."""
        return Deduplication(
            expression=self.expression,
            ttl=timedelta(seconds=self.ttl),
            entries_max=self.max_entries,
            on_duplicate=OnDuplicate(self.on_duplicate),
        )

    @classmethod
    def of(cls, rule: Deduplication) -> "DeduplicationBody":
        """Return the body that describes `rule`."""
        return cls(
            expression=rule.expression,
            ttl=int(rule.ttl.total_seconds()),
            max_entries=rule.entries_max,
            on_duplicate=rule.on_duplicate.value,
        )


class AuthBody(Schema):
    """Who may publish. If `enabled`, only admins, and keys with a name in `publishers`, may.

    With `unauthenticatedAccessEnabled`, callers without a key may publish too.
    """

    enabled: bool = False
    publishers: list[Annotated[Text, Field(min_length=1, max_length=PUBLISHER_LENGTH_MAX)]] = Field(
        default=[], max_length=PUBLISHERS_MAX, description="names of API keys", examples=[["shop"]]
    )
    unauthenticated_access_enabled: bool = True

    def to_domain(self) -> PublishAuth:
        """Return the rule for publishers."""
        return PublishAuth(
            enabled=self.enabled,
            publishers=tuple(self.publishers),
            unauthenticated_access=self.unauthenticated_access_enabled,
        )

    @classmethod
    def of(cls, auth: PublishAuth) -> "AuthBody":
        """Return the body that describes `auth`."""
        return cls(
            enabled=auth.enabled,
            publishers=list(auth.publishers),
            unauthenticated_access_enabled=auth.unauthenticated_access,
        )


class OfflineRetentionBody(Schema):
    """How long the archive keeps messages: a number of days, or forever."""

    duration: int | None = Field(
        default=0,
        ge=0,
        le=RETENTION_DAYS_MAX,
        description=f"days; {RETENTION_DAYS_DEFAULT} where offline storage is enabled without any",
    )
    infinite: bool = False


class OfflineStorageBody(Schema):
    """The archive of a topic: Parquet files that Spark jobs write, every hour and on request."""

    enabled: bool = False
    retention_time: OfflineRetentionBody = OfflineRetentionBody()

    def to_domain(self) -> OfflineStorage:
        """Return the setting.

        Raises:
            ValidationFailedError: The setting is not valid.
        """
        kept = self.retention_time
        if kept.infinite:
            return OfflineStorage(enabled=self.enabled, days=None)
        default = RETENTION_DAYS_DEFAULT if self.enabled else 0
        return OfflineStorage(enabled=self.enabled, days=kept.duration or default)

    @classmethod
    def of(cls, storage: OfflineStorage) -> "OfflineStorageBody":
        """Return the body that describes `storage`."""
        kept = OfflineRetentionBody(duration=storage.days, infinite=storage.days is None)
        return cls(enabled=storage.enabled, retention_time=kept)


class TopicBody(Schema):
    """A topic to create or change."""

    name: Annotated[str, checked(topic_name)] = Field(examples=["shop.orders"])
    description: Text = Field(default="", max_length=_TEXT_MAX)
    owner: OwnerBody = OwnerBody()
    retention_time: RetentionBody = RetentionBody()
    ack: Literal["NONE", "LEADER", "ALL"] = Field(
        default="ALL",
        description=(
            "which replicas in Kafka have a message before its publisher is answered: LEADER is"
            " faster, and what only the leader has is lost with it"
        ),
    )
    content_type: Literal["JSON", "AVRO"] = Field(
        default="JSON",
        description=(
            "what its messages are; an AVRO topic has a schema from the start, and never becomes"
            " JSON. A JSON topic becomes AVRO with a schema and migratedFromJsonType"
        ),
    )
    migrated_from_json_type: bool = Field(
        default=False,
        description=(
            "set together with contentType, when a JSON topic becomes AVRO: what it had before is"
            " delivered as JSON. A new AVRO topic may have it, too"
        ),
    )
    # The field `schema` has another name here, because Pydantic's models have a method `schema`.
    schema_text: Text | None = Field(
        default=None,
        alias="schema",
        max_length=SCHEMA_LENGTH_MAX,
        description=(
            "a JSON Schema (2020-12), or an Avro schema, as text: what is published must be valid."
            " Another text is another version"
        ),
        examples=['{"type": "object", "required": ["order"]}'],
    )
    max_message_size: int = Field(default=51_200, ge=MESSAGE_SIZE_MIN, le=MESSAGE_SIZE_MAX)
    partitions: int = Field(default=8, ge=1, le=PARTITIONS_MAX)
    adopted: bool = Field(
        default=False,
        description=(
            "set when it is created: the topic is in Kafka already, and is taken over as it is."
            " Its partitions and retentionTime are Kafka's, and it stays there when it is deleted"
        ),
    )
    alternate_topic: Annotated[str, checked(topic_name)] | None = Field(
        default=None,
        description="takes what is published here with `mandatory=true` while nobody gets it",
        examples=["shop.unrouted"],
    )
    throughput_quota: int | None = Field(
        default=None,
        ge=THROUGHPUT_QUOTA_MIN,
        le=THROUGHPUT_QUOTA_MAX,
        description="bytes a second that each API process takes; more is refused with 429",
    )
    deduplication: DeduplicationBody | None = None
    propagated_headers: list[str] = Field(
        default=[],
        max_length=HEADERS_MAX,
        description="request headers of a publication that are sent on to subscribers",
        examples=[["X-Tenant"]],
    )
    tracking_mode: Mode | None = Field(default=None, description=MODE_TEXT)
    tracking_enabled: bool | None = Field(default=None, description=ENABLED_TEXT)

    auth: AuthBody = AuthBody()
    subscribing_restricted: bool = Field(
        default=False, description="only owners of the topic, and admins, subscribe to it"
    )
    offline_storage: OfflineStorageBody = OfflineStorageBody()

    def to_domain(self) -> Topic:
        """Return the topic. The ack NONE is treated as LEADER, as Hermes does.

        Raises:
            ValidationFailedError: A field is not valid.
        """
        self._require_id_headers()
        return Topic(
            name=self.name,
            description=self.description,
            owner=self.owner.to_domain(),
            retention=self.retention_time.to_domain(),
            retention_unit=RetentionUnit(self.retention_time.retention_unit),
            ack=Ack.ALL if self.ack == "ALL" else Ack.LEADER,
            message_size_max=self.max_message_size,
            partitions=self.partitions,
            adopted=self.adopted,
            content_type=ContentType(self.content_type),
            migrated_from_json=self.migrated_from_json_type,
            schemas=self._schemas(),
            alternate_topic=self.alternate_topic,
            throughput_quota=self.throughput_quota,
            deduplication=self.deduplication.to_domain() if self.deduplication else None,
            propagated_headers=_without_keys(self.propagated_headers),
            auth=self.auth.to_domain(),
            subscribing_restricted=self.subscribing_restricted,
            tracking=tracking_of(self.tracking_mode, self.tracking_enabled),
            offline_storage=self.offline_storage.to_domain(),
        )

    def _require_id_headers(self) -> None:
        """Refuse a deduplication rule that reads ids from headers that the topic does not store.

        With such a rule the topic would refuse every message.
        """
        if self.deduplication and self.deduplication.expression:
            expression = self.deduplication.expression
            require_propagated(expression, self.propagated_headers, path=_ID_FIELD)

    def _schemas(self) -> tuple[TopicSchema, ...]:
        if not self.schema_text:
            return ()
        return first_schema(ContentType(self.content_type), self.schema_text)

    @classmethod
    def of(cls, topic: Topic) -> "TopicBody":
        """Return the body that describes `topic`."""
        return cls(
            name=topic.name,
            description=topic.description,
            owner=OwnerBody.of(topic.owner),
            retention_time=RetentionBody.of(topic.retention, topic.retention_unit.value),
            ack=topic.ack.value,
            max_message_size=topic.message_size_max,
            partitions=topic.partitions,
            adopted=topic.adopted,
            content_type=topic.content_type.value,
            migrated_from_json_type=topic.migrated_from_json,
            schema=topic.schema.text if topic.schema else None,
            alternate_topic=topic.alternate_topic,
            throughput_quota=topic.throughput_quota,
            deduplication=(
                DeduplicationBody.of(topic.deduplication) if topic.deduplication else None
            ),
            propagated_headers=list(topic.propagated_headers),
            auth=AuthBody.of(topic.auth),
            subscribing_restricted=topic.subscribing_restricted,
            tracking_mode=topic.tracking.value,
            offline_storage=OfflineStorageBody.of(topic.offline_storage),
        )


def _without_keys(names: Sequence[str]) -> tuple[str, ...]:
    """Return `names`, the headers that are passed on to subscribers.

    Raises:
        ValidationFailedError: One name is `Authorization`, the header with the publishers' keys.
    """
    for index, name in enumerate(names):
        if name.lower() == AUTHORIZATION:
            message = "must not be Authorization: subscribers would get the publishers' keys"
            raise ValidationFailedError.of(f"propagatedHeaders.{index}", message)
    return tuple(names)


class ChaosRead(Schema):
    """Hermes' field for intentional failures of a topic: always off."""

    mode: Literal["DISABLED"] = "DISABLED"


class TopicRead(TopicBody):
    """A topic in responses. Times are decimal seconds since the epoch."""

    schema_version: int | None = Field(
        default=None, description="that of its schema, which is held against what is published"
    )
    json_to_avro_dry_run: bool = False
    chaos: ChaosRead = ChaosRead()
    fallback_to_remote_datacenter_enabled: bool = False
    created_at: float | None = None
    modified_at: float | None = None


def topic_read(topic: Topic) -> TopicRead:
    """Return the response for `topic`."""
    body = {**TopicBody.of(topic).model_dump(by_alias=False), **_tracked(topic)}
    return TopicRead(
        **body,
        schema_version=topic.schema.version if topic.schema else None,
        created_at=topic.created_at.timestamp() if topic.created_at else None,
        modified_at=topic.modified_at.timestamp() if topic.modified_at else None,
    )


def _tracked(topic: Topic) -> JsonObject:
    return {"tracking_enabled": topic.tracking is not TrackingMode.OFF}


def new_topic(body: JsonObject, *, strict: bool) -> Topic:
    """Return the topic that a creation body describes.

    Raises:
        ValidationFailedError: The body is invalid; the error lists all problems of the body.
    """
    rules = Rules(others=OTHER_FIELDS, strict=strict)
    return parse(TopicBody, merged({}, body), rules).to_domain()


def changed_topic(
    current: Topic, patch: JsonObject, *, strict: bool, registered: Registered | None = None
) -> Topic:
    """Return `current` with a merge patch applied.

    If the patch has a schema, `registered` is that schema's version in the schema registry.

    Raises:
        ValidationFailedError: The result is invalid; the error lists all problems of the result.
    """
    before: JsonObject = TopicBody.of(current).model_dump()
    if is_migration(current, patch.get("contentType")):
        # The change makes a JSON topic AVRO. The topic's JSON Schema is left out, because it is not
        # an Avro schema. If the topic has kept an Avro schema, that schema takes its place.
        before["schema"] = current.kept_schema.text if current.kept_schema else None
    rules = Rules(others=OTHER_FIELDS, fixed={"name": current.name}, strict=strict)
    requested = by_enabled(merged(before, patch), patch, current.tracking)
    body = parse(TopicBody, requested, rules)
    kind, migrated = ContentType(body.content_type), body.migrated_from_json_type
    require_migration(current, kind, migrated=migrated)
    wanted = body.to_domain()
    require_kept(current, wanted)
    if wanted.partitions < current.partitions:
        message = f"must be at least {current.partitions}: partitions never become fewer"
        raise ValidationFailedError.of("partitions", message)
    return replace(
        wanted,
        schemas=_versions(current, body, registered),
        created_at=current.created_at,
        modified_at=current.modified_at,
        change=current.change,
    )


def _versions(
    current: Topic, body: TopicBody, registered: Registered | None
) -> tuple[TopicSchema, ...]:
    """Return the versions that the topic's schema will have when `body` is stored.

    Without a schema in `body`, all versions are retired: they validate no new messages.
    """
    text = body.schema_text
    if is_migration(current, body.content_type):
        return migrated_schemas(current, text, registered)
    changed = with_schema(current, text, registered) if text else without_schema(current)
    return changed.schemas


def ignored_in_topic(body: JsonObject) -> tuple[Ignored, ...]:
    """Return the fields of a topic body that have no effect."""
    return ignored_fields(TopicBody, body, OTHER_FIELDS)
