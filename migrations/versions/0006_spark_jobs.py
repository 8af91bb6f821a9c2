"""Spark jobs, the runners that take them, and what the first of them makes.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_jobs()
    op.create_table(
        "spark_runners",
        sa.Column("id", sa.Text(), nullable=False),
        _time_of_writing("seen_at"),
        sa.PrimaryKeyConstraint("id", name="pk_spark_runners"),
    )
    _create_result(
        "analytics_undelivered",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("volume", sa.BigInteger(), nullable=False),
    )
    _create_result(
        "analytics_failures",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("shape", sa.Text(), nullable=False),
        sa.Column("pattern", sa.Text(), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("subscriptions", sa.BigInteger(), nullable=False),
        sa.Column("shapes", sa.BigInteger(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("example_id", sa.Text(), nullable=False),
        sa.Column("example_subscription", sa.Text(), nullable=False),
        sa.Column("example_reason", sa.Text(), nullable=False),
    )


def downgrade() -> None:
    for table in ("analytics_failures", "analytics_undelivered", "spark_runners", "spark_jobs"):
        op.drop_table(table)


def _create_jobs() -> None:
    op.create_table(
        "spark_jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("scope", postgresql.JSONB(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        _time_of_writing("requested_at"),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("runner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
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
        sa.Column("output", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('REQUESTED', 'RUNNING', 'DONE', 'CANCELLED', 'FAILED')",
            name="ck_spark_jobs_state",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_spark_jobs"),
    )
    op.create_index("ix_spark_jobs_newest", "spark_jobs", ["requested_at", "id"])
    op.create_index(
        "ix_spark_jobs_open",
        "spark_jobs",
        ["requested_at"],
        postgresql_where=sa.text("state IN ('REQUESTED', 'RUNNING')"),
    )


def _create_result(table: str, *columns: sa.Column[object]) -> None:
    op.create_table(
        table,
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("job_id", "attempt", "part", "row", name=f"pk_{table}"),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["spark_jobs.id"],
            name=f"fk_{table}_job_id_spark_jobs",
            ondelete="CASCADE",
        ),
    )


def _time_of_writing(name: str) -> sa.Column[object]:
    return sa.Column(
        name,
        sa.DateTime(timezone=True),
        server_default=sa.func.clock_timestamp(),
        nullable=False,
    )
