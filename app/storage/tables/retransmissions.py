"""The tables of retransmissions."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, LargeBinary, func, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables.base import Base, Json


class RetransmissionRow(Base):
    """A retransmission with its progress. The row of the job has the job's state."""

    __tablename__ = "retransmissions"
    __table_args__ = (
        Index("ix_retransmissions_newest", "subscription_id", "requested_at", "id"),
        # An index for workers. It stays small even if many retransmissions have ended, because it
        # has only those to send.
        Index(
            "ix_retransmissions_sending", "requested_at", postgresql_where=text("state = 'SENDING'")
        ),
    )

    id: Mapped[str] = mapped_column(
        ForeignKey("spark_jobs.id", ondelete="CASCADE"), primary_key=True
    )
    subscription_id: Mapped[str]
    topic: Mapped[str]
    subscription: Mapped[str]
    request: Mapped[Json]
    state: Mapped[str]
    requested_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    ended_at: Mapped[datetime | None]
    # The number of the job's claim whose choice of messages is valid.
    attempt: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    matched: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    size: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    archived: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    archived_size: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    gone: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    written: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    finished: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    samples: Mapped[list[Json]] = mapped_column(JSONB, server_default=text("'[]'::jsonb"))
    reason: Mapped[str | None]
    worker: Mapped[str | None]
    lease_until: Mapped[datetime | None]


class RetransmissionRunRow(Base):
    """Messages that one claim of a job has chosen: from `start` to before `end` of a partition."""

    __tablename__ = "retransmission_runs"
    __table_args__ = (
        Index("ix_retransmission_runs_place", "job_id", "attempt", "partition", "start"),
    )

    job_id: Mapped[str] = mapped_column(
        ForeignKey("retransmissions.id", ondelete="CASCADE"), primary_key=True
    )
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    part: Mapped[int] = mapped_column(Integer, primary_key=True)
    row: Mapped[int] = mapped_column(Integer, primary_key=True)
    partition: Mapped[int] = mapped_column(Integer)
    start: Mapped[int] = mapped_column(BigInteger)
    end: Mapped[int] = mapped_column(BigInteger)
    messages: Mapped[int] = mapped_column(BigInteger)
    size: Mapped[int] = mapped_column(BigInteger)
    undelivered: Mapped[int | None] = mapped_column(BigInteger)
    archived: Mapped[bool] = mapped_column(server_default=text("false"))


class RetransmissionRecordRow(Base):
    """A record that one claim of a job has chosen, and that the log no longer has."""

    __tablename__ = "retransmission_records"
    __table_args__ = (
        Index("ix_retransmission_records_place", "job_id", "attempt", "partition", "offset"),
    )

    job_id: Mapped[str] = mapped_column(
        ForeignKey("retransmissions.id", ondelete="CASCADE"), primary_key=True
    )
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    part: Mapped[int] = mapped_column(Integer, primary_key=True)
    row: Mapped[int] = mapped_column(Integer, primary_key=True)
    partition: Mapped[int] = mapped_column(Integer)
    offset: Mapped[int] = mapped_column(BigInteger)
    timestamp_ms: Mapped[int] = mapped_column(BigInteger)
    size: Mapped[int] = mapped_column(BigInteger)
    key: Mapped[bytes | None] = mapped_column(LargeBinary)
    value: Mapped[bytes | None] = mapped_column(LargeBinary)
    header_names: Mapped[list[bytes]] = mapped_column(ARRAY(LargeBinary))
    header_values: Mapped[list[bytes]] = mapped_column(ARRAY(LargeBinary))


class RetransmissionSentRow(Base):
    """The original and the new position of a message that was appended to the log again."""

    __tablename__ = "retransmission_sent"
    __table_args__ = (Index("ix_retransmission_sent_place", "job_id", "partition", "offset"),)

    job_id: Mapped[str] = mapped_column(
        ForeignKey("retransmissions.id", ondelete="CASCADE"), primary_key=True
    )
    source_partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    source_offset: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    partition: Mapped[int] = mapped_column(Integer)
    offset: Mapped[int] = mapped_column(BigInteger)
