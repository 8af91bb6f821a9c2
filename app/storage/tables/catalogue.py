"""The tables of topics, subscriptions and their changes."""

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    UniqueConstraint,
    false,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables.base import Base, Json


class ChangeClockRow(Base):
    """One row with the number of the last change.

    Each change locks the row, so changes come one after the other.
    """

    __tablename__ = "change_clock"
    __table_args__ = (CheckConstraint("id = 1", name="single_row"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(BigInteger)


class TombstoneRow(Base):
    """Records that a topic was deleted (`key` is its name), or a subscription (`key` is its id)."""

    __tablename__ = "tombstones"
    __table_args__ = (CheckConstraint("kind IN ('topic', 'subscription')", name="kind"),)

    change: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    kind: Mapped[str]
    key: Mapped[str]
    deleted_at: Mapped[datetime] = mapped_column(server_default=func.now())


class GroupRow(Base):
    """A group of topics."""

    __tablename__ = "groups"

    name: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class TopicRow(Base):
    """A topic. `settings` has all settings without a column of their own (see `json_values.py`)."""

    __tablename__ = "topics"
    __table_args__ = (Index("ix_topics_owner", "owner_source", "owner_id"),)

    name: Mapped[str] = mapped_column(primary_key=True)
    group_name: Mapped[str] = mapped_column(ForeignKey("groups.name"), index=True)
    description: Mapped[str]
    owner_source: Mapped[str]
    owner_id: Mapped[str]
    partitions: Mapped[int] = mapped_column(Integer)
    settings: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    modified_at: Mapped[datetime] = mapped_column(server_default=func.now())
    change: Mapped[int] = mapped_column(BigInteger, index=True)


class OnceAdoptedRow(Base):
    """A topic that was adopted and then deleted.

    The topic may still exist in the log, where it belongs to another program.
    """

    __tablename__ = "once_adopted"

    name: Mapped[str] = mapped_column(primary_key=True)
    deleted_at: Mapped[datetime] = mapped_column(server_default=func.now())


class TopicVolumeRow(Base):
    """The bytes published to a topic."""

    __tablename__ = "topic_volumes"

    topic: Mapped[str] = mapped_column(
        ForeignKey("topics.name", ondelete="CASCADE"), primary_key=True
    )
    volume: Mapped[int] = mapped_column(BigInteger)


class SubscriptionRow(Base):
    """A subscription.

    `start` maps the index of a partition, in decimal, to the first offset to deliver. `settings`
    has all settings that have no column of their own (see `json_values.py`).
    """

    __tablename__ = "subscriptions"
    __table_args__ = (
        UniqueConstraint("topic", "name"),
        Index("ix_subscriptions_owner", "owner_source", "owner_id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    topic: Mapped[str] = mapped_column(ForeignKey("topics.name"))
    name: Mapped[str]
    endpoint: Mapped[str]
    state: Mapped[str]
    owner_source: Mapped[str]
    owner_id: Mapped[str]
    description: Mapped[str]
    contact: Mapped[str]
    policy: Mapped[Json]
    settings: Mapped[Json] = mapped_column(server_default=text("'{}'::jsonb"))
    start: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    modified_at: Mapped[datetime] = mapped_column(server_default=func.now())
    change: Mapped[int] = mapped_column(BigInteger, index=True)


class OAuthProviderRow(Base):
    """An issuer of access tokens.

    `settings` has all settings that have no column of their own (see `json_values.py`).
    `unrestricted` has a column, because older versions do not know this setting, and would remove
    it from `settings`.
    """

    __tablename__ = "oauth_providers"

    name: Mapped[str] = mapped_column(primary_key=True)
    settings: Mapped[Json]
    unrestricted: Mapped[bool] = mapped_column(server_default=false())
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    modified_at: Mapped[datetime] = mapped_column(server_default=func.now())
