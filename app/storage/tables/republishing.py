"""The tables of republishing tasks."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Integer, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables.base import Base, Json


class OfflineTaskRow(Base):
    """What a job must publish again. The state is in the row of the job."""

    __tablename__ = "offline_tasks"

    job_id: Mapped[str] = mapped_column(
        ForeignKey("spark_jobs.id", ondelete="CASCADE"), primary_key=True
    )
    source: Mapped[str]
    target: Mapped[str]
    request: Mapped[Json]


class OfflinePartRow(Base):
    """The progress of a task in one partition of its source topic: up to `position`.

    `ends` has the recorded ends of the target's partitions. After these ends, the partitions may
    have messages that are not recorded here. Until `appending_until`, an append may be running.
    Each publisher has a number, `term`. Reports of earlier publishers change nothing.
    """

    __tablename__ = "offline_parts"

    job_id: Mapped[str] = mapped_column(
        ForeignKey("offline_tasks.job_id", ondelete="CASCADE"), primary_key=True
    )
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    start: Mapped[int] = mapped_column(BigInteger)
    end: Mapped[int] = mapped_column(BigInteger)
    position: Mapped[int] = mapped_column(BigInteger)
    ends: Mapped[Json] = mapped_column(JSONB)
    term: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    appending_until: Mapped[datetime | None]
    written: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    size: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    refused: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    problem: Mapped[str | None]
