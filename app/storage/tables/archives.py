"""The tables of the archives of topics."""

from datetime import date, datetime
from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Date,
    ForeignKeyConstraint,
    Index,
    Integer,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables.base import Base, Json

# The states of an archive folder: WRITING (not complete), KEPT (valid), DROPPED (no longer valid).
# Only KEPT folders are read.
WRITING: Final = "WRITING"
KEPT: Final = "KEPT"
DROPPED: Final = "DROPPED"


class ArchiveFolderRow(Base):
    """Parquet files of one topic, from one claim of a job.

    `spans` maps the index of a partition to the first offset and the offset after the last offset.
    """

    __tablename__ = "archive_folders"
    __table_args__ = (
        CheckConstraint("state IN ('WRITING', 'KEPT', 'DROPPED')", name="state"),
        Index(
            "ix_archive_folders_topic", "topic", "begun_at", postgresql_where=text("state = 'KEPT'")
        ),
    )

    job_id: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    topic: Mapped[str] = mapped_column(primary_key=True)
    # Together with its name, the creation time identifies the topic. A topic that is created again
    # is another topic, with offsets of its own.
    topic_created_at: Mapped[datetime]
    path: Mapped[str]
    spans: Mapped[Json]
    state: Mapped[str] = mapped_column(server_default=text(f"'{WRITING}'"))
    begun_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    dropped_at: Mapped[datetime | None]


class ArchivePieceRow(Base):
    """The part of a folder for a day and a partition.

    The range of offsets may also contain offsets of other days.
    """

    __tablename__ = "archive_pieces"
    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt", "topic"],
            ["archive_folders.job_id", "archive_folders.attempt", "archive_folders.topic"],
            ondelete="CASCADE",
        ),
    )

    job_id: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    topic: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(Date, primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    start: Mapped[int] = mapped_column(BigInteger)
    end: Mapped[int] = mapped_column(BigInteger)
    first_ms: Mapped[int] = mapped_column(BigInteger)
    last_ms: Mapped[int] = mapped_column(BigInteger)
    messages: Mapped[int] = mapped_column(BigInteger)
    size: Mapped[int] = mapped_column(BigInteger)


class ArchivePositionRow(Base):
    """The offset up to which a partition is archived. It is the next offset to archive."""

    __tablename__ = "archive_positions"

    topic: Mapped[str] = mapped_column(primary_key=True)
    topic_created_at: Mapped[datetime] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    next_offset: Mapped[int] = mapped_column(BigInteger)
