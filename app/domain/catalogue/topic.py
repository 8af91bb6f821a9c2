"""A topic: a named stream of messages in the log."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.catalogue.headers import require_header_names
from app.domain.catalogue.offline_storage import OfflineStorage
from app.domain.catalogue.schema import ContentType, TopicSchema, require_schemas
from app.domain.errors import ValidationFailedError
from app.domain.names import group_of, topic_name
from app.domain.owner import Owner
from app.domain.trace import TrackingMode

MESSAGE_SIZE_MIN: Final = 1024
MESSAGE_SIZE_MAX: Final = 2 * 1024 * 1024
PARTITIONS_MAX: Final = 1000
RETENTION_MAX: Final = timedelta(days=3650)
DEDUPLICATION_TTL_MAX: Final = timedelta(days=7)
DEDUPLICATION_ENTRIES_MAX: Final = 1_000_000
THROUGHPUT_QUOTA_MIN: Final = 1024
THROUGHPUT_QUOTA_MAX: Final = 1024 * 1024 * 1024
PUBLISHERS_MAX: Final = 1000
PUBLISHER_LENGTH_MAX: Final = 100


class Ack(StrEnum):
    """How many replicas must have a message before its publisher gets a response: one, or all."""

    LEADER = "LEADER"
    ALL = "ALL"


class RetentionUnit(StrEnum):
    """The unit in which the retention of a topic was given."""

    SECONDS = "SECONDS"
    MINUTES = "MINUTES"
    HOURS = "HOURS"
    DAYS = "DAYS"


class OnDuplicate(StrEnum):
    """The response to a message that is a duplicate, and so is not stored again.

    ACCEPT: the same response as for a stored message. REFUSE: an error that names the stored
    message.
    """

    ACCEPT = "ACCEPT"
    REFUSE = "REFUSE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplication:
    """Deduplication: a message is not stored if an earlier message had the same id.

    Attributes:
        expression: A CEL expression. Its value for a message is the id. If it is None, the
            publisher sends the id.
        ttl: How long ids are remembered.
        entries_max: At least this number of the newest ids is remembered. Older ids may be
            forgotten before `ttl` ends.
        on_duplicate: The response to a duplicate.
    """

    expression: str | None = None
    ttl: timedelta = timedelta(hours=1)
    entries_max: int = 100_000
    on_duplicate: OnDuplicate = OnDuplicate.ACCEPT

    def __post_init__(self) -> None:
        longest = DEDUPLICATION_TTL_MAX // timedelta(seconds=1)
        if not timedelta(seconds=1) <= self.ttl <= DEDUPLICATION_TTL_MAX:
            raise ValidationFailedError.of("deduplication.ttl", f"must be 1 to {longest} seconds")
        if not 1 <= self.entries_max <= DEDUPLICATION_ENTRIES_MAX:
            raise ValidationFailedError.of(
                "deduplication.maxEntries", f"must be 1 to {DEDUPLICATION_ENTRIES_MAX}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishAuth:
    """Who may publish to a topic, as in Hermes.

    If `enabled` is true, only callers whose keys have a name in `publishers` may publish. With
    `unauthenticated_access`, callers without a key may publish, too.
    """

    enabled: bool = False
    publishers: tuple[str, ...] = ()
    unauthenticated_access: bool = True

    def __post_init__(self) -> None:
        if len(self.publishers) > PUBLISHERS_MAX:
            raise ValidationFailedError.of("auth.publishers", f"must be at most {PUBLISHERS_MAX}")
        for index, name in enumerate(self.publishers):
            if not 1 <= len(name) <= PUBLISHER_LENGTH_MAX or "\0" in name:
                raise ValidationFailedError.of(
                    f"auth.publishers.{index}", f"must be 1 to {PUBLISHER_LENGTH_MAX} characters"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic and its settings.

    Attributes:
        adopted: Whether the topic existed in the log before it was created in Angelia. An adopted
            topic has the partitions and the retention that it has in the log.
        retention_unit: The unit in which answers show the retention, if it gives a whole number.
        alternate_topic: The topic that gets messages that are published as `mandatory` while this
            topic has no subscriptions.
        throughput_quota: The maximum bytes per second that publishers may send.
        propagated_headers: The names of request headers that are sent with a message to its
            subscribers.
        tracking: Which publications are traced.
        subscribing_restricted: Whether only the topic's owners may create subscriptions.
        migrated_from_json: Whether the topic was a JSON topic before it became AVRO, so it may have
            JSON messages.
        schemas: The versions of the topic's schema, the oldest first. An AVRO topic has at least
            one version.
        change: The number of the topic's last change.
    """

    name: str
    owner: Owner = field(default_factory=Owner)
    description: str = ""
    adopted: bool = False
    partitions: int = 8
    retention: timedelta = timedelta(days=1)
    retention_unit: RetentionUnit = RetentionUnit.DAYS
    ack: Ack = Ack.ALL
    message_size_max: int = 51_200
    alternate_topic: str | None = None
    throughput_quota: int | None = None
    deduplication: Deduplication | None = None
    propagated_headers: tuple[str, ...] = ()
    tracking: TrackingMode = TrackingMode.OFF
    auth: PublishAuth = field(default_factory=PublishAuth)
    subscribing_restricted: bool = False
    content_type: ContentType = ContentType.JSON
    migrated_from_json: bool = False
    schemas: tuple[TopicSchema, ...] = ()
    offline_storage: OfflineStorage = field(default_factory=OfflineStorage)
    created_at: datetime | None = None
    modified_at: datetime | None = None
    change: int = 0

    def __post_init__(self) -> None:
        topic_name(self.name)
        if not 1 <= self.partitions <= PARTITIONS_MAX:
            raise ValidationFailedError.of("partitions", f"must be 1 to {PARTITIONS_MAX}")
        if self.retention < timedelta(seconds=1):
            raise ValidationFailedError.of("retentionTime.duration", "must be at least one second")
        if not MESSAGE_SIZE_MIN <= self.message_size_max <= MESSAGE_SIZE_MAX:
            raise ValidationFailedError.of(
                "maxMessageSize", f"must be {MESSAGE_SIZE_MIN} to {MESSAGE_SIZE_MAX} bytes"
            )
        require_header_names(self.propagated_headers, path="propagatedHeaders")
        quota = self.throughput_quota
        if quota is not None and not THROUGHPUT_QUOTA_MIN <= quota <= THROUGHPUT_QUOTA_MAX:
            raise ValidationFailedError.of(
                "throughputQuota",
                f"must be {THROUGHPUT_QUOTA_MIN} to {THROUGHPUT_QUOTA_MAX} bytes a second",
            )
        if self.alternate_topic is not None:
            topic_name(self.alternate_topic, path="alternateTopic")
        require_schemas(self.schemas)
        if self.content_type is ContentType.AVRO and self.schema is None:
            raise ValidationFailedError.of("schema", "must be there when contentType is AVRO")
        if self.migrated_from_json and self.content_type is ContentType.JSON:
            message = "must be false while contentType is JSON: set contentType to AVRO with it"
            raise ValidationFailedError.of("migratedFromJsonType", message)

    @property
    def schema(self) -> TopicSchema | None:
        """The schema version that validates messages.

        If a message names another version, the named version validates it.
        """
        return next((each for each in reversed(self.schemas) if not each.retired), None)

    @property
    def kept_schema(self) -> TopicSchema | None:
        """The newest Avro schema of a JSON topic; None if it has none.

        This schema is kept for a later change of the topic to AVRO.
        """
        kept = (each for each in reversed(self.schemas) if each.kind is ContentType.AVRO)
        return next(kept, None)

    @property
    def group(self) -> str:
        """The group of the topic."""
        return group_of(self.name)
