"""Traces by day, whose they are, and what of them was lost.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "traces",
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("message_key", sa.BigInteger(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("queued", sa.REAL(), nullable=True),
        sa.Column("waited", sa.REAL(), nullable=True),
        sa.Column("connect", sa.REAL(), nullable=True),
        sa.Column("took", sa.REAL(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("batch_id", sa.Text(), nullable=False),
        sa.Column("retransmission", sa.Text(), nullable=False),
        postgresql_partition_by="RANGE (at)",
    )
    # Each partition gets its own when it is made.
    op.create_index("ix_traces_message", "traces", ["message_key"])
    op.create_index("ix_traces_source", "traces", ["source", "at"])
    op.create_table(
        "trace_sources",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column(
            "seen_at",
            sa.DateTime(timezone=True),
            server_default=sa.func.clock_timestamp(),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name="pk_trace_sources"),
        sa.UniqueConstraint(
            "topic", "subscription_id", name="uq_trace_sources_topic_subscription_id"
        ),
    )
    op.create_index("ix_trace_sources_subscription_id", "trace_sources", ["subscription_id"])
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


def downgrade() -> None:
    for table in ("trace_losses", "trace_sources", "traces"):
        op.drop_table(table)
