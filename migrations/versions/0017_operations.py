"""Workload constraints, readiness of data centres, activity of topics; finding by owner.

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "workload_constraints",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("consumers", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("topic", "subscription", name="pk_workload_constraints"),
        sa.ForeignKeyConstraint(
            ["topic"],
            ["topics.name"],
            name="fk_workload_constraints_topic_topics",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "datacenters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("ready", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_datacenters"),
    )
    op.create_table(
        "topic_activity",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("published", sa.BigInteger(), nullable=False),
        sa.Column(
            "grown_at",
            sa.DateTime(timezone=True),
            server_default=sa.func.clock_timestamp(),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("topic", name="pk_topic_activity"),
        sa.ForeignKeyConstraint(
            ["topic"], ["topics.name"], name="fk_topic_activity_topic_topics", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_topic_activity_grown_at", "topic_activity", ["grown_at"])
    for table in ("topics", "subscriptions"):
        op.create_index(f"ix_{table}_owner", table, ["owner_source", "owner_id"])


def downgrade() -> None:
    for table in ("topics", "subscriptions"):
        op.drop_index(f"ix_{table}_owner", table)
    for table in ("topic_activity", "datacenters", "workload_constraints"):
        op.drop_table(table)
