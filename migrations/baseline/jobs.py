"""The tables of Spark jobs, and of the runners that run them."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.baseline.columns import time_of_writing

TABLES: Final = ("spark_jobs", "spark_runners")


def create() -> None:
    """Create the tables of Spark jobs."""
    _create_spark_jobs()
    _create_spark_runners()


def _create_spark_jobs() -> None:
    op.create_table(
        "spark_jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("scope", postgresql.JSONB(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        time_of_writing("requested_at"),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("runner", sa.Text()),
        sa.Column("lease_until", sa.DateTime(timezone=True)),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("lost", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "cancel_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column("step", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("done", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("log", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
        sa.Column(
            "counts", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("output", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.CheckConstraint(
            "state IN ('REQUESTED', 'RUNNING', 'DONE', 'CANCELLED', 'FAILED')",
            name="ck_spark_jobs_state",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_spark_jobs"),
    )
    op.create_index("ix_spark_jobs_newest", "spark_jobs", ["requested_at", "id"])
    # An index for runners. It stays small even if many jobs have ended.
    op.create_index(
        "ix_spark_jobs_open",
        "spark_jobs",
        ["requested_at"],
        postgresql_where=sa.text("state IN ('REQUESTED', 'RUNNING')"),
    )


def _create_spark_runners() -> None:
    op.create_table(
        "spark_runners",
        sa.Column("id", sa.Text(), nullable=False),
        time_of_writing("seen_at"),
        sa.PrimaryKeyConstraint("id", name="pk_spark_runners"),
    )
