"""The tables of traces by day, of their sources, and of lost entries."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.baseline.columns import time_of_writing

TABLES: Final = ("trace_packs", "traces", "trace_sources", "trace_losses")


def create() -> None:
    """Create the tables of traces."""
    _create_trace_packs()
    _create_traces()
    _create_trace_sources()
    _create_trace_losses()


def _create_trace_packs() -> None:
    op.create_table(
        "trace_packs",
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sources", postgresql.ARRAY(sa.Integer()), nullable=False),
        sa.Column("partitions", postgresql.ARRAY(sa.Integer()), nullable=False),
        sa.Column("first_offsets", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("message_keys", postgresql.ARRAY(sa.Integer()), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        postgresql_partition_by="RANGE (at)",
    )
    # Each partition (a day) gets its own index when it is created. The index is updated
    # immediately. Otherwise every look-up would also read a list of entries that are not in the
    # index yet.
    op.create_index(
        "ix_trace_packs_message_keys",
        "trace_packs",
        ["message_keys"],
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
    )
    # Do not compress these columns. Their content looks random, so compression would only take CPU
    # time.
    op.execute("ALTER TABLE trace_packs ALTER body SET STORAGE EXTERNAL")
    op.execute("ALTER TABLE trace_packs ALTER message_keys SET STORAGE EXTERNAL")


def _create_traces() -> None:
    op.create_table(
        "traces",
        # Columns are ordered by width, because PostgreSQL adds padding to unaligned columns.
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("message_key", sa.BigInteger(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("status_code", sa.Integer()),
        sa.Column("queued", sa.REAL()),
        sa.Column("waited", sa.REAL()),
        sa.Column("connect", sa.REAL()),
        sa.Column("took", sa.REAL()),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("batch_id", sa.Text(), nullable=False),
        sa.Column("retransmission", sa.Text(), nullable=False),
        postgresql_partition_by="RANGE (at)",
    )
    op.create_index("ix_traces_message", "traces", ["message_key"])
    op.create_index("ix_traces_source", "traces", ["source", "at"])


def _create_trace_sources() -> None:
    op.create_table(
        "trace_sources",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        time_of_writing("seen_at"),
        sa.PrimaryKeyConstraint("id", name="pk_trace_sources"),
        sa.UniqueConstraint(
            "topic", "subscription_id", name="uq_trace_sources_topic_subscription_id"
        ),
    )
    op.create_index("ix_trace_sources_subscription_id", "trace_sources", ["subscription_id"])


def _create_trace_losses() -> None:
    op.create_table(
        "trace_losses",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trace_losses"),
    )
    op.create_index("ix_trace_losses_at", "trace_losses", ["at"])
