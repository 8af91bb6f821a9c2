"""The tables of ledgers."""

from datetime import datetime

from sqlalchemy import BigInteger, Boolean, ForeignKey, Index, Integer, text
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables.base import Base, Json


class LedgerRequestRow(Base):
    """A request for a ledger entry, which a job will write.

    One job may write the entries of many ledgers. The state of the request is in the row of the
    job.
    """

    __tablename__ = "ledger_requests"
    __table_args__ = (Index("ix_ledger_requests_subscription_id", "subscription_id"),)

    job_id: Mapped[str] = mapped_column(
        ForeignKey("spark_jobs.id", ondelete="CASCADE"), primary_key=True
    )
    subscription_id: Mapped[str] = mapped_column(primary_key=True)
    topic: Mapped[str]
    subscription: Mapped[str]
    request: Mapped[Json]


class LedgerCountRow(Base):
    """The number of records of one kind in a partition, counted by one claim of a job.

    `carried` means that the records were published before the time of the entry. `passed` means
    that they were finished at the end of this time. `whose` says for which subscriptions the
    records are. `first` is the lowest offset of the records.
    """

    __tablename__ = "ledger_counts"

    job_id: Mapped[str] = mapped_column(
        ForeignKey("spark_jobs.id", ondelete="CASCADE"), primary_key=True
    )
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    part: Mapped[int] = mapped_column(Integer, primary_key=True)
    row: Mapped[int] = mapped_column(Integer, primary_key=True)
    subscription_id: Mapped[str] = mapped_column(server_default="")
    partition: Mapped[int] = mapped_column(Integer)
    carried: Mapped[bool] = mapped_column(Boolean)
    passed: Mapped[bool] = mapped_column(Boolean)
    audience: Mapped[str] = mapped_column("whose")
    messages: Mapped[int] = mapped_column(BigInteger)
    first: Mapped[int] = mapped_column(BigInteger)


class LedgerDiscardRow(Base):
    """The number of discards with one reason in a partition, counted by one claim of a job."""

    __tablename__ = "ledger_discards"

    job_id: Mapped[str] = mapped_column(
        ForeignKey("spark_jobs.id", ondelete="CASCADE"), primary_key=True
    )
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    part: Mapped[int] = mapped_column(Integer, primary_key=True)
    row: Mapped[int] = mapped_column(Integer, primary_key=True)
    subscription_id: Mapped[str] = mapped_column(server_default="")
    partition: Mapped[int] = mapped_column(Integer)
    reason: Mapped[str]
    status: Mapped[int | None] = mapped_column(Integer)
    messages: Mapped[int] = mapped_column(BigInteger)


class LedgerEntryRow(Base):
    """A ledger entry, which is never changed. `content` is the exact text that is hashed.

    `signature` is the signature of the hash, made with the key `key_id`. `missing` is the number of
    missing messages, for alerts. The row is kept after the subscription and the job are deleted.
    """

    __tablename__ = "ledger_entries"
    __table_args__ = (
        Index("ix_ledger_entries_to_at", "to_at"),
        Index("ix_ledger_entries_missing", "subscription_id", postgresql_where=text("missing > 0")),
    )

    subscription_id: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    job_id: Mapped[str]
    from_at: Mapped[datetime]
    to_at: Mapped[datetime]
    content: Mapped[str]
    previous: Mapped[str]
    hash: Mapped[str]
    key_id: Mapped[str | None]
    signature: Mapped[str | None]
    missing: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
