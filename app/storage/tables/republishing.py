"""The tables of republishing tasks."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Integer, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables.base import Base, Json


class OfflineTaskRow(Base):
    """What a job must publish again. The row of the job has the state."""

    __tablename__ = "offline_tasks"

    job_id: Mapped[str] = mapped_column(
        ForeignKey("spark_jobs.id", ondelete="CASCADE"), primary_key=True
    )
    source: Mapped[str]
    target: Mapped[str]
    request: Mapped[Json]


class OfflinePartRow(Base):
    """The progress of a task in one partition of its source topic: up to `position`.

    From `ends` on, the target's partitions may have more messages than are recorded here. Until
    `appending_until` an append may be running. Each publisher has a `term`. Reports of earlier
    terms change nothing.
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
