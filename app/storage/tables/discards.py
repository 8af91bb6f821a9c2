"""The tables of undelivered messages."""

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Identity,
    Index,
    Integer,
    UniqueConstraint,
    false,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables.base import Base


class UndeliveredRow(Base):
    """The discard of a message at its position in the log.

    The row is kept after its subscription is deleted.
    """

    __tablename__ = "undelivered"
    __table_args__ = (
        # Finds the row of a discard when the same message is discarded again. The message id is
        # included, because after the log was created again, another message may have the same
        # offset.
        UniqueConstraint(
            "subscription_id", "partition", "offset", "message_id", name="uq_undelivered_place"
        ),
        Index("ix_undelivered_newest", "subscription_id", "discarded_at", "id"),
        Index("ix_undelivered_topic", "topic", "discarded_at", "id"),
        Index("ix_undelivered_message", "message_id"),
        # An index for analyses of discards of a given time. It leads to the row ids of this time.
        Index("ix_undelivered_time", "discarded_at", "id"),
        # An index for redrives. It stays small even if many discards were sent again, because it
        # does not have these.
        Index(
            "ix_undelivered_to_redrive",
            "subscription_id",
            "discarded_at",
            "id",
            postgresql_where=text("redriven_at IS NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    subscription_id: Mapped[str]
    topic: Mapped[str]
    subscription: Mapped[str]
    message_id: Mapped[str]
    discarded_at: Mapped[datetime]
    reason: Mapped[str]
    status: Mapped[int | None] = mapped_column(Integer)
    # Why the last attempt failed; NULL if the status or the reason says it, or if it is unknown.
    last_failure: Mapped[str | None]
    # The start of the last response's body; NULL if it was not text, or there was none.
    answer: Mapped[str | None]
    attempts: Mapped[int] = mapped_column(Integer)
    partition: Mapped[int] = mapped_column(Integer)
    offset: Mapped[int] = mapped_column(BigInteger)
    body: Mapped[bytes]
    headers: Mapped[list[list[str]]]
    key: Mapped[bytes | None]
    redriven_at: Mapped[datetime | None]
    redrive_id: Mapped[str | None]
    # The producer epoch under which the discard was recorded; NULL for rows of earlier versions.
    producer_epoch: Mapped[str | None]
    # Whether the message was sent again and discarded again. The later discard has a row of its
    # own.
    superseded: Mapped[bool] = mapped_column(server_default=false())
    # The row id of the later discard. This later row may be deleted before the row that refers to
    # it.
    superseded_by: Mapped[int | None] = mapped_column(BigInteger)


class RetractionRow(Base):
    """Retracts the discards of a producer epoch from `offset` on, except messages in `finished`."""

    __tablename__ = "discard_retractions"
    __table_args__ = (Index("ix_discard_retractions_age", "recorded_at"),)

    subscription_id: Mapped[str] = mapped_column(primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    producer_epoch: Mapped[str] = mapped_column(primary_key=True)
    offset: Mapped[int] = mapped_column(BigInteger)
    # The lengths of ranges of messages from `offset` on, in turn unfinished and finished, in the
    # form that commits have.
    finished: Mapped[bytes]
    recorded_at: Mapped[datetime] = mapped_column(server_default=func.now())
