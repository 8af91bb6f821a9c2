"""The tables of the workers' reports, and of other data that workers share."""

from datetime import datetime, timedelta

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables.base import Base, Json


class AppliedClockRow(Base):
    """One row with the number of the last change that any worker has applied."""

    __tablename__ = "applied_clock"
    __table_args__ = (CheckConstraint("id = 1", name="single_row"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(BigInteger)


class WorkerRow(Base):
    """A worker's last heartbeat. The time of the heartbeat is by the database's clock."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str]
    pid: Mapped[int] = mapped_column(BigInteger)
    applied_change: Mapped[int] = mapped_column(BigInteger)
    partitions: Mapped[int] = mapped_column(Integer)
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())


class CursorRow(Base):
    """The position of a subscription in one partition.

    This table and the next tables have no foreign key. So if one report is about a subscription
    that was just deleted, the worker's other reports are still stored. The row of the deleted
    subscription is deleted later.
    """

    __tablename__ = "cursors"
    # PostgreSQL leaves free space on each page, because rows are written every second. With this
    # space, and without an index on columns that change, a row stays on its page.
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
    """What one worker has last reported about its work for one subscription.

    `counts` has the counts of the time span `window` before the report.
    """

    __tablename__ = "subscription_loads"
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    subscription_id: Mapped[str] = mapped_column(primary_key=True)
    worker_id: Mapped[str] = mapped_column(primary_key=True)
    window: Mapped[timedelta]
    in_flight: Mapped[int] = mapped_column(Integer)
    waiting_retries: Mapped[int] = mapped_column(Integer)
    counts: Mapped[Json]
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())


class CircuitRow(Base):
    """A circuit that subscriptions share by name.

    Times are by the database's clock, except for `since`, which is only displayed. Each change has
    a new `number`. When the circuit is half-open, `tried_by` is the worker that sends the probe.
    This worker renews `tried_until`, the time before which no other worker may send a probe.
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


class RateNoteRow(Base):
    """A worker's last note about its share of a subscription's rate.

    Attributes:
        partitions: The number of the topic's partitions. The tickets are for these partitions.
        number: The number of this note. Each note of the worker has the next number.
        wanted: How many tickets the worker requests to borrow.
        lent: Maps the id of a borrower to the number of the borrower's request, the tickets that
            are lent now, and all tickets that the borrower may still use. Both sets of tickets are
            in hexadecimal.
        followed: Maps the id of a lender to the number of the lender's last answer that the worker
            has read.
    """

    __tablename__ = "rate_notes"
    # PostgreSQL leaves free space on each page, because rows are written every second. With this
    # space, a row stays on its page.
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    subscription_id: Mapped[str] = mapped_column(primary_key=True)
    worker_id: Mapped[str] = mapped_column(primary_key=True)
    partitions: Mapped[int] = mapped_column(Integer)
    number: Mapped[int] = mapped_column(BigInteger)
    wanted: Mapped[int] = mapped_column(Integer)
    lent: Mapped[Json]
    followed: Mapped[Json]
    seen_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class RecorderPositionRow(Base):
    """The offset up to which a partition of a stream is recorded."""

    __tablename__ = "recorder_positions"

    topic: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    next_offset: Mapped[int] = mapped_column(BigInteger)


class PublishedIdRow(Base):
    """An id of a published message.

    The row is deleted with its topic, so that a topic that is created again starts without ids.
    """

    __tablename__ = "published_ids"
    __table_args__ = (Index("ix_published_ids_age", "topic", "recorded_at"),)

    topic: Mapped[str] = mapped_column(
        ForeignKey("topics.name", ondelete="CASCADE"), primary_key=True
    )
    message_id: Mapped[str] = mapped_column(primary_key=True)
    recorded_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    # The id of the stored message; NULL if it is the same as `message_id`, by which duplicates are
    # found.
    stored_as: Mapped[str | None]
