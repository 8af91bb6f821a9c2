"""The tables of undelivered messages, and of retractions of discards."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.baseline.columns import time_of_transaction

TABLES: Final = ("undelivered", "undelivered_voids")


def create() -> None:
    """Create the tables of undelivered messages."""
    _create_undelivered()
    _create_undelivered_voids()


def _create_undelivered() -> None:
    op.create_table(
        "undelivered",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("discarded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("headers", postgresql.JSONB(), nullable=False),
        sa.Column("key", sa.LargeBinary()),
        sa.Column("redriven_at", sa.DateTime(timezone=True)),
        sa.Column("redrive_id", sa.Text()),
        sa.Column("life", sa.Text()),
        sa.Column("outdated", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("outdated_by", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_undelivered"),
        # Identifies the discard of a message, if the message is discarded again. The id is
        # included, because after a recreation of the log, another message may have the same offset.
        sa.UniqueConstraint(
            "subscription_id", "partition", "offset", "message_id", name="uq_undelivered_place"
        ),
    )
    op.create_index("ix_undelivered_message", "undelivered", ["message_id"])
    op.create_index(
        "ix_undelivered_newest", "undelivered", ["subscription_id", "discarded_at", "id"]
    )
    # An index for redrives. It stays small even if many discards were sent again.
    op.create_index(
        "ix_undelivered_to_redrive",
        "undelivered",
        ["subscription_id", "discarded_at", "id"],
        postgresql_where=sa.text("redriven_at IS NULL"),
    )
    op.create_index("ix_undelivered_topic", "undelivered", ["topic", "discarded_at", "id"])


def _create_undelivered_voids() -> None:
    op.create_table(
        "undelivered_voids",
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("life", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("finished", sa.LargeBinary(), nullable=False),
        time_of_transaction("recorded_at"),
        sa.PrimaryKeyConstraint(
            "subscription_id", "partition", "life", name="pk_undelivered_voids"
        ),
    )
    op.create_index("ix_undelivered_voids_age", "undelivered_voids", ["recorded_at"])
