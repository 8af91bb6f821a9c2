"""The tables of republishing tasks, and of their progress."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.baseline.columns import gone_with

TABLES: Final = ("offline_tasks", "offline_parts")


def create() -> None:
    """Create the tables of republishing."""
    _create_offline_tasks()
    _create_offline_parts()


def _create_offline_tasks() -> None:
    op.create_table(
        "offline_tasks",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("request", postgresql.JSONB(), nullable=False),
        gone_with("spark_jobs.id", table="offline_tasks", column="job_id"),
        sa.PrimaryKeyConstraint("job_id", name="pk_offline_tasks"),
    )


def _create_offline_parts() -> None:
    op.create_table(
        "offline_parts",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("ends", postgresql.JSONB(), nullable=False),
        sa.Column("term", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("appending_until", sa.DateTime(timezone=True)),
        sa.Column("written", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("size", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("refused", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("problem", sa.Text()),
        gone_with("offline_tasks.job_id", table="offline_parts", column="job_id"),
        sa.PrimaryKeyConstraint("job_id", "partition", name="pk_offline_parts"),
    )
