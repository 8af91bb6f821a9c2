"""Ledgers: what was asked for, what Spark counted for it, and the entries, chained by their hashes.

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ledger_requests",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("request", postgresql.JSONB(), nullable=False),
        _of_job("ledger_requests", "spark_jobs.id"),
        sa.PrimaryKeyConstraint("job_id", name="pk_ledger_requests"),
    )
    op.create_index("ix_ledger_requests_subscription_id", "ledger_requests", ["subscription_id"])
    _create_result(
        "ledger_counts",
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("carried", sa.Boolean(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("whose", sa.Text(), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
    )
    _create_result(
        "ledger_discards",
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("messages", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "ledger_entries",
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("from_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("to_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("previous", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("subscription_id", "number", name="pk_ledger_entries"),
    )
    op.create_index("ix_ledger_entries_to_at", "ledger_entries", ["to_at"])


def downgrade() -> None:
    for table in ("ledger_entries", "ledger_discards", "ledger_counts", "ledger_requests"):
        op.drop_table(table)


def _create_result(table: str, *columns: sa.Column[object]) -> None:
    op.create_table(
        table,
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        *columns,
        _of_job(table, "ledger_requests.job_id"),
        sa.PrimaryKeyConstraint("job_id", "attempt", "part", "row", name=f"pk_{table}"),
    )


def _of_job(table: str, target: str) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_job_id_{target.partition('.')[0]}"
    return sa.ForeignKeyConstraint(["job_id"], [target], name=name, ondelete="CASCADE")
