"""The history of metrics: what is recorded of each subscription and topic, by minute and hour.

`metrics_recorded` has a row for each subscription and topic: the counts that are in its history,
and the minutes of its last hour, to which a minute is appended. With the first minute of another
hour, the minutes become a row of `metrics_history`, and the hour is appended to another one: that
of its day. `app.domain.metrics.packing` has the form of these bytes.

`metrics_history` has partitions by step and time (`app.storage.health.history_partitions`).
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    text,
)

from app.storage.tables.base import Base

METRICS_HISTORY: Final = Table(
    "metrics_history",
    Base.metadata,
    # The time of the first step of the row.
    Column("start", DateTime(timezone=True), nullable=False),
    # The id of the row of `metrics_recorded`.
    Column("source", Integer, nullable=False),
    # The length of a step in minutes. A row has the minutes of an hour, or the hours of a day.
    Column("step", SmallInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("step", "source", "start", name="pk_metrics_history"),
    postgresql_partition_by="RANGE (step, start)",
)

METRICS_RECORDED: Final = Table(
    "metrics_recorded",
    Base.metadata,
    Column("hour", DateTime(timezone=True), nullable=False),
    # The counts that are recorded. `published` is null until it was read for the first time.
    Column("published", BigInteger),
    Column("delivered", BigInteger, nullable=False, server_default=text("0")),
    Column("discarded", BigInteger, nullable=False, server_default=text("0")),
    Column("filtered", BigInteger, nullable=False, server_default=text("0")),
    Column("lag", BigInteger, nullable=False, server_default=text("0")),
    Column("id", Integer, Identity(always=True), primary_key=True),
    # One of these two. Both are null after it was deleted, until its history is deleted, too.
    Column("topic", Text, ForeignKey("topics.name", ondelete="SET NULL")),
    Column("subscription_id", Text, ForeignKey("subscriptions.id", ondelete="SET NULL")),
    # The attempts of each worker that are recorded.
    Column("workers", LargeBinary, nullable=False, server_default=text("''::bytea")),
    Column("minutes", LargeBinary, nullable=False, server_default=text("''::bytea")),
    Index("uq_metrics_recorded_topic", "topic", unique=True),
    Index("uq_metrics_recorded_subscription_id", "subscription_id", unique=True),
    # Rows are written every minute, and grow. With free space on the page, a row stays on its page.
    postgresql_with={"fillfactor": 50},
)
