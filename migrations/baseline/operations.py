"""The tables of workload constraints, of data centres in use, and of topics' last messages."""

from typing import Final

import sqlalchemy as sa
from alembic import op

from migrations.baseline.columns import gone_with, time_of_writing

TABLES: Final = ("workload_constraints", "datacenters", "topic_activity")


def create() -> None:
    """Create the tables of operations."""
    _create_workload_constraints()
    _create_datacenters()
    _create_topic_activity()


def _create_workload_constraints() -> None:
    op.create_table(
        "workload_constraints",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("consumers", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text()),
        gone_with("topics.name", table="workload_constraints", column="topic"),
        sa.PrimaryKeyConstraint("topic", "subscription", name="pk_workload_constraints"),
    )


def _create_datacenters() -> None:
    op.create_table(
        "datacenters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("ready", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_datacenters"),
    )


def _create_topic_activity() -> None:
    op.create_table(
        "topic_activity",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("published", sa.BigInteger(), nullable=False),
        time_of_writing("grown_at"),
        gone_with("topics.name", table="topic_activity", column="topic"),
        sa.PrimaryKeyConstraint("topic", name="pk_topic_activity"),
    )
    op.create_index("ix_topic_activity_grown_at", "topic_activity", ["grown_at"])
