"""The tables of workload constraints, of data centres, and of the activity of topics."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Integer, func
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables.base import Base


class WorkloadConstraintRow(Base):
    """How many consumers a subscription should have.

    If `subscription` is empty, the row is for each subscription of the topic.
    """

    __tablename__ = "workload_constraints"

    topic: Mapped[str] = mapped_column(
        ForeignKey("topics.name", ondelete="CASCADE"), primary_key=True
    )
    subscription: Mapped[str] = mapped_column(primary_key=True)
    consumers: Mapped[int] = mapped_column(Integer)
    reason: Mapped[str | None]


class DatacenterRow(Base):
    """Whether a data centre is in service. Operators can take it out of service.

    A data centre without a row is in service.
    """

    __tablename__ = "datacenters"

    name: Mapped[str] = mapped_column(primary_key=True)
    ready: Mapped[bool]


class TopicActivityRow(Base):
    """The last known number of a topic's messages, and when this number last increased."""

    __tablename__ = "topic_activity"

    topic: Mapped[str] = mapped_column(
        ForeignKey("topics.name", ondelete="CASCADE"), primary_key=True
    )
    published: Mapped[int] = mapped_column(BigInteger)
    grown_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp(), index=True)
