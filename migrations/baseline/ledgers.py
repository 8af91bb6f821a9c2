"""The tables of ledgers: the requests, the counts, and the entries."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.baseline.columns import create_result, gone_with

TABLES: Final = ("ledger_requests", "ledger_counts", "ledger_discards", "ledger_entries")


def create() -> None:
    """Create the tables of ledgers."""
    _create_ledger_requests()
    _create_ledger_counts()
    _create_ledger_discards()
    _create_ledger_entries()


def _create_ledger_requests() -> None:
    op.create_table(
        "ledger_requests",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("request", postgresql.JSONB(), nullable=False),
        gone_with("spark_jobs.id", table="ledger_requests", column="job_id"),
        sa.PrimaryKeyConstraint("job_id", name="pk_ledger_requests"),
    )
    op.create_index("ix_ledger_requests_subscription_id", "ledger_requests", ["subscription_id"])


def _create_ledger_counts() -> None:
    create_result(
        "ledger_counts",
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("carried", sa.Boolean(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("whose", sa.Text(), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        of="ledger_requests.job_id",
    )


def _create_ledger_discards() -> None:
    create_result(
        "ledger_discards",
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        of="ledger_requests.job_id",
    )


def _create_ledger_entries() -> None:
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
        sa.Column("key_id", sa.Text()),
        sa.Column("signature", sa.Text()),
        sa.Column("missing", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("subscription_id", "number", name="pk_ledger_entries"),
    )
    op.create_index(
        "ix_ledger_entries_missing",
        "ledger_entries",
        ["subscription_id"],
        postgresql_where=sa.text("missing > 0"),
    )
    op.create_index("ix_ledger_entries_to_at", "ledger_entries", ["to_at"])
