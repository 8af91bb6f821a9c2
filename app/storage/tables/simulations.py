"""The tables of simulations."""

from datetime import datetime

from sqlalchemy import BigInteger, Double, ForeignKey, Integer, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables.base import Base, Json


class SimulationRow(Base):
    """What a job must simulate, and the result over the whole time."""

    __tablename__ = "simulations"

    job_id: Mapped[str] = mapped_column(
        ForeignKey("spark_jobs.id", ondelete="CASCADE"), primary_key=True
    )
    subscription_id: Mapped[str]
    topic: Mapped[str]
    subscription: Mapped[str]
    request: Mapped[Json]
    # Examples of messages that only the current or only the proposed filters match
    # (`app.domain.insight.simulation.Differing`). The list is empty until the job is done.
    samples: Mapped[list[Json]] = mapped_column(JSONB, server_default=text("'[]'::jsonb"))


class SimulatedMinuteRow(Base):
    """How many messages would have arrived and waited in a minute, from one claim of a job."""

    __tablename__ = "simulated_minutes"

    job_id: Mapped[str] = mapped_column(
        ForeignKey("simulations.job_id", ondelete="CASCADE"), primary_key=True
    )
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True)
    part: Mapped[int] = mapped_column(Integer, primary_key=True)
    row: Mapped[int] = mapped_column(Integer, primary_key=True)
    minute: Mapped[datetime]
    read: Mapped[int] = mapped_column(BigInteger)
    matched: Mapped[int] = mapped_column(BigInteger)
    present: Mapped[int] = mapped_column(BigInteger)
    added: Mapped[int] = mapped_column(BigInteger)
    size: Mapped[int] = mapped_column(BigInteger)
    peak: Mapped[int] = mapped_column(BigInteger)
    backlog: Mapped[float] = mapped_column(Double)
