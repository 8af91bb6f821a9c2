"""The tables of simulations."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.baseline.columns import create_result, gone_with

TABLES: Final = ("simulations", "simulated_minutes")


def create() -> None:
    """Create the tables of simulations."""
    _create_simulations()
    _create_simulated_minutes()


def _create_simulations() -> None:
    op.create_table(
        "simulations",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("request", postgresql.JSONB(), nullable=False),
        sa.Column(
            "samples", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False
        ),
        gone_with("spark_jobs.id", table="simulations", column="job_id"),
        sa.PrimaryKeyConstraint("job_id", name="pk_simulations"),
    )


def _create_simulated_minutes() -> None:
    create_result(
        "simulated_minutes",
        sa.Column("minute", sa.DateTime(timezone=True), nullable=False),
        sa.Column("read", sa.BigInteger(), nullable=False),
        sa.Column("matched", sa.BigInteger(), nullable=False),
        sa.Column("present", sa.BigInteger(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("peak", sa.BigInteger(), nullable=False),
        sa.Column("backlog", sa.Double(), nullable=False),
        of="simulations.job_id",
    )
