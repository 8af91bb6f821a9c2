"""The tables of the control plane. Rows of them never leave `app.storage`."""

from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    Text,
    UniqueConstraint,
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMING: Final = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

Json = dict[str, Any]


class Base(DeclarativeBase):
    """What all tables have in common: how constraints are called, and how types are stored."""

    metadata: ClassVar[MetaData] = MetaData(naming_convention=NAMING)
    type_annotation_map: ClassVar = {
        str: Text,
        bytes: LargeBinary,
        datetime: DateTime(timezone=True),
        timedelta: Interval(),
        Json: JSONB,
        list[list[str]]: JSONB,
        list[str]: JSONB,
    }


metadata: Final = Base.metadata


class ChangeClockRow(Base):
    """The number of the last change: one row, whose lock puts changes in order."""

    __tablename__ = "change_clock"
    __table_args__ = (CheckConstraint("id = 1", name="single_row"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(BigInteger)


class AppliedClockRow(Base):
    """The last change that any worker has ever applied: one row."""

    __tablename__ = "applied_clock"
    __table_args__ = (CheckConstraint("id = 1", name="single_row"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(BigInteger)


class TombstoneRow(Base):
    """A deleted topic (`key` is its name) or subscription (`key` is its id)."""

    __tablename__ = "tombstones"
    __table_args__ = (CheckConstraint("kind IN ('topic', 'subscription')", name="kind"),)

    change: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    kind: Mapped[str]
    key: Mapped[str]
    deleted_at: Mapped[datetime] = mapped_column(server_default=func.now())


class GroupRow(Base):
    """A group of topics."""

    __tablename__ = "groups"

    name: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class TopicRow(Base):
    """A topic. `settings` holds the settings that have no column (see `settings.py`)."""

    __tablename__ = "topics"
    __table_args__ = (Index("ix_topics_owner", "owner_source", "owner_id"),)

    name: Mapped[str] = mapped_column(primary_key=True)
    group_name: Mapped[str] = mapped_column(ForeignKey("groups.name"), index=True)
    description: Mapped[str]
    owner_source: Mapped[str]
    owner_id: Mapped[str]
    partitions: Mapped[int] = mapped_column(Integer)
    settings: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    modified_at: Mapped[datetime] = mapped_column(server_default=func.now())
    change: Mapped[int] = mapped_column(BigInteger, index=True)


class TopicVolumeRow(Base):
    """How many bytes were published to a topic."""

    __tablename__ = "topic_volumes"

    topic: Mapped[str] = mapped_column(
        ForeignKey("topics.name", ondelete="CASCADE"), primary_key=True
    )
    volume: Mapped[int] = mapped_column(BigInteger)


class SubscriptionRow(Base):
    """A subscription. `start` maps a partition's index, in decimal, to its first offset.

    `settings` holds the settings that have no column (see `settings.py`).
    """

    __tablename__ = "subscriptions"
    __table_args__ = (
        UniqueConstraint("topic", "name"),
        Index("ix_subscriptions_owner", "owner_source", "owner_id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    topic: Mapped[str] = mapped_column(ForeignKey("topics.name"))
    name: Mapped[str]
    endpoint: Mapped[str]
    state: Mapped[str]
    owner_source: Mapped[str]
    owner_id: Mapped[str]
    description: Mapped[str]
    contact: Mapped[str]
    policy: Mapped[Json]
    settings: Mapped[Json] = mapped_column(server_default=text("'{}'::jsonb"))
    start: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    modified_at: Mapped[datetime] = mapped_column(server_default=func.now())
    change: Mapped[int] = mapped_column(BigInteger, index=True)


class OAuthProviderRow(Base):
    """Who issues access tokens. `settings` holds all else (see `settings.py`).

    What `unrestricted` says is no setting: older processes, which do not know it, store settings
    without it.
    """

    __tablename__ = "oauth_providers"

    name: Mapped[str] = mapped_column(primary_key=True)
    settings: Mapped[Json]
    unrestricted: Mapped[bool] = mapped_column(server_default=false())
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    modified_at: Mapped[datetime] = mapped_column(server_default=func.now())


class WorkerRow(Base):
    """A worker's last heartbeat, by the database's clock."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str]
    pid: Mapped[int] = mapped_column(BigInteger)
    applied_change: Mapped[int] = mapped_column(BigInteger)
    partitions: Mapped[int] = mapped_column(Integer)
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())


class CursorRow(Base):
    """Where a subscription stands in one partition.

    No foreign key, here and below: a worker's report of a subscription that was deleted a moment
    ago must not fail its reports of all the others. What is left over is pruned.
    """

    __tablename__ = "cursors"
    # Written every second: with room on the page, and no index on what changes, it stays in place.
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    subscription_id: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    topic: Mapped[str]
    worker_id: Mapped[str]
    offset: Mapped[int] = mapped_column(BigInteger)
    end: Mapped[int] = mapped_column(BigInteger)
    delivered: Mapped[int] = mapped_column(BigInteger)
    discarded: Mapped[int] = mapped_column(BigInteger)
    volume: Mapped[int] = mapped_column(BigInteger)
    filtered: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    position: Mapped[int | None] = mapped_column(BigInteger)
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())


class SubscriptionLoadRow(Base):
    """What one worker did for one subscription in its last window."""

    __tablename__ = "subscription_loads"
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    subscription_id: Mapped[str] = mapped_column(primary_key=True)
    worker_id: Mapped[str] = mapped_column(primary_key=True)
    window: Mapped[timedelta]
    in_flight: Mapped[int] = mapped_column(Integer)
    parked: Mapped[int] = mapped_column(Integer)
    counts: Mapped[Json]
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())


class CircuitRow(Base):
    """A circuit that subscriptions share by name.

    Times are by the database's clock, but `since`, which is for people, by its teller's. `number`
    is another one after each change. Half open, its one message is sent by `tried_by`, who says
    again and again until when nobody else may send one.
    """

    __tablename__ = "circuits"

    name: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger)
    open: Mapped[bool]
    opens_at: Mapped[datetime]
    since: Mapped[datetime]
    reason: Mapped[str]
    changed_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    tried_by: Mapped[str | None]
    tried_until: Mapped[datetime | None]


class UndeliveredRow(Base):
    """How a message at its place in the log ended. Kept when its subscription is deleted."""

    __tablename__ = "undelivered"
    __table_args__ = (
        # What makes one of a message that is discarded again. Its id tells apart what stood at one
        # offset before a log was made anew, and after that.
        UniqueConstraint(
            "subscription_id", "partition", "offset", "message_id", name="uq_undelivered_place"
        ),
        Index("ix_undelivered_newest", "subscription_id", "discarded_at", "id"),
        Index("ix_undelivered_topic", "topic", "discarded_at", "id"),
        Index("ix_undelivered_message", "message_id"),
        # What a redrive looks for, however many were sent again before.
        Index(
            "ix_undelivered_to_redrive",
            "subscription_id",
            "discarded_at",
            "id",
            postgresql_where=text("redriven_at IS NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    subscription_id: Mapped[str]
    topic: Mapped[str]
    subscription: Mapped[str]
    message_id: Mapped[str]
    discarded_at: Mapped[datetime]
    reason: Mapped[str]
    status: Mapped[int | None] = mapped_column(Integer)
    attempts: Mapped[int] = mapped_column(Integer)
    partition: Mapped[int] = mapped_column(Integer)
    offset: Mapped[int] = mapped_column(BigInteger)
    body: Mapped[bytes]
    headers: Mapped[list[list[str]]]
    key: Mapped[bytes | None]
    redriven_at: Mapped[datetime | None]
    redrive_id: Mapped[str | None]
    # Whose discard it is, as voids name them; not known of those that earlier versions recorded.
    life: Mapped[str | None]
    # Its message was sent again, from here, and discarded again, which is a row of its own.
    outdated: Mapped[bool] = mapped_column(server_default=false())
    # That row, which may be dropped before this one; kept when this is discarded once more here.
    outdated_by: Mapped[int | None] = mapped_column(BigInteger)


class UndeliveredVoidRow(Base):
    """Discards that do not count: of a life in a partition, from `offset` on, but `finished`."""

    __tablename__ = "undelivered_voids"
    __table_args__ = (Index("ix_undelivered_voids_age", "recorded_at"),)

    subscription_id: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    life: Mapped[str] = mapped_column(primary_key=True)
    offset: Mapped[int] = mapped_column(BigInteger)
    # Run lengths from `offset` on, as in commits.
    finished: Mapped[bytes]
    recorded_at: Mapped[datetime] = mapped_column(server_default=func.now())


class PublishedIdRow(Base):
    """An id that its publisher gave to a message. Gone with its topic: the next one starts anew."""

    __tablename__ = "published_ids"
    __table_args__ = (Index("ix_published_ids_age", "topic", "recorded_at"),)

    topic: Mapped[str] = mapped_column(
        ForeignKey("topics.name", ondelete="CASCADE"), primary_key=True
    )
    message_id: Mapped[str] = mapped_column(primary_key=True)
    recorded_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    # The id that the message has, where it is known again by another one.
    stored_as: Mapped[str | None]


class RateNoteRow(Base):
    """What a worker says to the others of its share of a subscription's rate.

    `lent` maps a borrower's id to the number of its note, its tickets, and all that it may still
    use, both in hexadecimal; `heard` maps a lender's id to a number.
    """

    __tablename__ = "rate_notes"
    # Written every second: with room on the page, a row stays in place.
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    subscription_id: Mapped[str] = mapped_column(primary_key=True)
    worker_id: Mapped[str] = mapped_column(primary_key=True)
    partitions: Mapped[int] = mapped_column(Integer)
    number: Mapped[int] = mapped_column(BigInteger)
    wanted: Mapped[int] = mapped_column(Integer)
    lent: Mapped[Json]
    heard: Mapped[Json]
    seen_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class RecorderPositionRow(Base):
    """How far a partition of a stream has been recorded."""

    __tablename__ = "recorder_positions"

    topic: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    next_offset: Mapped[int] = mapped_column(BigInteger)


class JobRow(Base):
    """A requested Spark job. A runner that has it keeps `lease_until` ahead of the clock."""

    __tablename__ = "spark_jobs"
    __table_args__ = (
        CheckConstraint(
            "state IN ('REQUESTED', 'RUNNING', 'DONE', 'CANCELLED', 'FAILED')", name="state"
        ),
        Index("ix_spark_jobs_newest", "requested_at", "id"),
        # What a runner looks for: few, whatever has ended.
        Index(
            "ix_spark_jobs_open",
            "requested_at",
            postgresql_where=text("state IN ('REQUESTED', 'RUNNING')"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    scope: Mapped[Json]
    state: Mapped[str]
    requested_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    runner: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    attempt: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    lost: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    cancel_requested: Mapped[bool] = mapped_column(server_default=text("false"))
    step: Mapped[str] = mapped_column(server_default=text("''"))
    done: Mapped[float] = mapped_column(Double, server_default=text("0"))
    log: Mapped[list[str]] = mapped_column(server_default=text("'[]'::jsonb"))
    counts: Mapped[Json] = mapped_column(server_default=text("'{}'::jsonb"))
    output: Mapped[str | None]
    reason: Mapped[str | None]


class SparkRunnerRow(Base):
    """A Spark runner's last heartbeat, by the database's clock."""

    __tablename__ = "spark_runners"

    id: Mapped[str] = mapped_column(primary_key=True)
    seen_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class AnalyticsUndeliveredRow(Base):
    """Discards of an hour that are alike, as one taking (`attempt`) of a job counted them."""

    __tablename__ = "analytics_undelivered"

    job_id: Mapped[str] = mapped_column(
        ForeignKey("spark_jobs.id", ondelete="CASCADE"), primary_key=True
    )
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    # The partition of the result, and the row in it: a partition that is written twice replaces.
    part: Mapped[int] = mapped_column(Integer, primary_key=True)
    row: Mapped[int] = mapped_column(Integer, primary_key=True)
    topic: Mapped[str]
    subscription: Mapped[str]
    reason: Mapped[str]
    status: Mapped[int | None] = mapped_column(Integer)
    hour: Mapped[datetime]
    messages: Mapped[int] = mapped_column(BigInteger)
    attempts: Mapped[int] = mapped_column(BigInteger)
    volume: Mapped[int] = mapped_column(BigInteger)


class AnalyticsFailureRow(Base):
    """A cluster of discards with one error and one payload shape, as a taking of a job saw it."""

    __tablename__ = "analytics_failures"

    job_id: Mapped[str] = mapped_column(
        ForeignKey("spark_jobs.id", ondelete="CASCADE"), primary_key=True
    )
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    part: Mapped[int] = mapped_column(Integer, primary_key=True)
    row: Mapped[int] = mapped_column(Integer, primary_key=True)
    topic: Mapped[str]
    status: Mapped[int | None] = mapped_column(Integer)
    error: Mapped[str]
    shape: Mapped[str]
    pattern: Mapped[str]
    messages: Mapped[int] = mapped_column(BigInteger)
    subscriptions: Mapped[int] = mapped_column(BigInteger)
    shapes: Mapped[int] = mapped_column(BigInteger)
    first_at: Mapped[datetime]
    last_at: Mapped[datetime]
    example_id: Mapped[str]
    example_subscription: Mapped[str]
    example_reason: Mapped[str]
