"""The tables of the history of metrics.

`metrics_recorded` has a row for each subscription and each topic. The row has the recorded counts,
and the minutes of the last hour. Each new minute is appended to this row. When the hour has ended,
its minutes become one row of `metrics_history`. The sum of the hour is appended to another row of
`metrics_history`, which has the hours of the day. `app.domain.metrics.packing` defines the bytes.

Each partition of `metrics_history` has metrics by minute or by hour, of a limited time
(`app.storage.health.history_partitions`).
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
    # The start of the time that the row of metrics covers.
    Column("start", DateTime(timezone=True), nullable=False),
    # The history to which the row belongs: an id in `metrics_recorded`.
    Column("source", Integer, nullable=False),
    # The length in minutes of the time that each of the row's metrics covers: 1 or 60. A row has
    # all minutes of an hour, or all hours of a day.
    Column("step", SmallInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("step", "source", "start", name="pk_metrics_history"),
    postgresql_partition_by="RANGE (step, start)",
)

METRICS_RECORDED: Final = Table(
    "metrics_recorded",
    Base.metadata,
    Column("hour", DateTime(timezone=True), nullable=False),
    # The recorded counts. `published` is NULL until the log has responded for the first time.
    Column("published", BigInteger),
    Column("delivered", BigInteger, nullable=False, server_default=text("0")),
    Column("discarded", BigInteger, nullable=False, server_default=text("0")),
    Column("filtered", BigInteger, nullable=False, server_default=text("0")),
    Column("lag", BigInteger, nullable=False, server_default=text("0")),
    Column("id", Integer, Identity(always=True), primary_key=True),
    # `topic` or `subscription_id` is set, never both. When the topic or subscription is deleted,
    # the column becomes NULL. Its history is deleted soon after.
    Column("topic", Text, ForeignKey("topics.name", ondelete="SET NULL")),
    Column("subscription_id", Text, ForeignKey("subscriptions.id", ondelete="SET NULL")),
    # The recorded attempts by worker, in the form of `app.domain.metrics.attempts`.
    Column("workers", LargeBinary, nullable=False, server_default=text("''::bytea")),
    Column("minutes", LargeBinary, nullable=False, server_default=text("''::bytea")),
    Index("uq_metrics_recorded_topic", "topic", unique=True),
    Index("uq_metrics_recorded_subscription_id", "subscription_id", unique=True),
    # PostgreSQL leaves free space on each page, because rows are written every minute and become
    # longer. With this space, a row stays on its page.
    postgresql_with={"fillfactor": 50},
)
