"""The tables of the results of analyses."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Integer,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.latency_columns import LATENCY, LATENCY_FIGURES
from app.storage.tables.base import Base

# How long it took to deliver the messages of one subscription, as counted by one claim (`attempt`)
# of a job.
ANALYTICS_LATENCY: Final = Table(
    LATENCY,
    Base.metadata,
    Column("job_id", Text, ForeignKey("spark_jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    # The partition of the result, and the number of the row in this partition. If a partition is
    # written again, the new rows replace the old rows.
    Column("part", Integer, primary_key=True),
    Column("row", Integer, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("subscription_id", Text, nullable=False),
    Column("subscription", Text, nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("delivered", BigInteger, nullable=False),
    Column("discarded", BigInteger, nullable=False),
    Column("unknown", BigInteger, nullable=False),
    Column("resent", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    # The number of messages that were delivered within the SLO (the promised time); NULL if the job
    # has no SLO.
    Column("within", BigInteger),
    # The latencies of the messages; NULL if nothing was delivered.
    *(Column(name, BigInteger) for name in LATENCY_FIGURES),
)


class AnalyticsUndeliveredRow(Base):
    """The number of similar discards in an hour, from one claim (`attempt`) of a job."""

    __tablename__ = "analytics_undelivered"

    job_id: Mapped[str] = mapped_column(
        ForeignKey("spark_jobs.id", ondelete="CASCADE"), primary_key=True
    )
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    # The partition of the result, and the number of the row in this partition. If a partition is
    # written again, the new rows replace the old rows.
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
    """A group of discards with one error and one form of payload, from one claim of a job."""

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
    # The fields that distinguish the messages of this group from other messages: see
    # `spark.transforms.fields`.
    fields: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=text("'[]'::jsonb"))
