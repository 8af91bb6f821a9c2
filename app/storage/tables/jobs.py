"""The tables of Spark jobs and their runners."""

from datetime import datetime

from sqlalchemy import (
    CheckConstraint,
    Double,
    Index,
    Integer,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables.base import Base, Json


class JobRow(Base):
    """A requested Spark job. Its runner renews `lease_until` regularly."""

    __tablename__ = "spark_jobs"
    __table_args__ = (
        CheckConstraint(
            "state IN ('REQUESTED', 'RUNNING', 'DONE', 'CANCELLED', 'FAILED')", name="state"
        ),
        Index("ix_spark_jobs_newest", "requested_at", "id"),
        # An index for runners. It stays small even if many jobs have ended, because it does not
        # have ended jobs.
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
    """A Spark runner's last heartbeat. The time of the heartbeat is by the database's clock."""

    __tablename__ = "spark_runners"

    id: Mapped[str] = mapped_column(primary_key=True)
    seen_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
