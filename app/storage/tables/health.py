"""The tables of leases, health of subscriptions, and alerts."""

from datetime import datetime

from sqlalchemy import Boolean, Index, Integer, text
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables.base import Base, Json


class LeaseRow(Base):
    """A lease for work that only one process at a time does.

    All times are by the database's clock. `renewed_at` is when the holder last renewed the lease.
    """

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    until: Mapped[datetime]
    renewed_at: Mapped[datetime]


class SubscriptionHealthRow(Base):
    """The health of a subscription. The row is written only when the health changes."""

    __tablename__ = "subscription_health"
    __table_args__ = (
        Index(
            "ix_subscription_health_unhealthy",
            "subscription_id",
            postgresql_where=text("unhealthy"),
        ),
    )

    subscription_id: Mapped[str] = mapped_column(primary_key=True)
    unhealthy: Mapped[bool] = mapped_column(Boolean)
    health: Mapped[Json]


class AlertRow(Base):
    """An alert.

    `announced` is 0 at first, 1 after the alert's start was published, and 2 after its end was
    published. The row is kept after the subscription is deleted, so that the alert's end can still
    be published, and people can look it up.
    """

    __tablename__ = "alerts"
    __table_args__ = (
        Index(
            "uq_alerts_active",
            "subscription_id",
            "kind",
            unique=True,
            postgresql_where=text("cleared_at IS NULL"),
        ),
        Index("ix_alerts_raised_at", "raised_at"),
        Index("ix_alerts_unannounced", "raised_at", postgresql_where=text("announced < 2")),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    subscription_id: Mapped[str]
    topic: Mapped[str]
    subscription: Mapped[str]
    description: Mapped[str]
    details: Mapped[Json]
    raised_at: Mapped[datetime]
    cleared_at: Mapped[datetime | None]
    announced: Mapped[int] = mapped_column(Integer, server_default=text("0"))
