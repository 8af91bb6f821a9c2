"""The tables of retransmissions: requests, chosen messages, and positions of their copies."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.baseline.columns import create_result, gone_with, time_of_writing

TABLES: Final = (
    "retransmissions",
    "retransmission_runs",
    "retransmission_records",
    "retransmission_sent",
)


def create() -> None:
    """Create the tables of retransmissions."""
    _create_retransmissions()
    _create_retransmission_runs()
    _create_retransmission_records()
    _create_retransmission_sent()


def _create_retransmissions() -> None:
    op.create_table(
        "retransmissions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("request", postgresql.JSONB(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        time_of_writing("requested_at"),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("matched", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("size", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("written", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("finished", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "samples", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False
        ),
        sa.Column("reason", sa.Text()),
        sa.Column("worker", sa.Text()),
        sa.Column("lease_until", sa.DateTime(timezone=True)),
        sa.Column("archived", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("archived_size", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("gone", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        gone_with("spark_jobs.id", table="retransmissions", column="id"),
        sa.PrimaryKeyConstraint("id", name="pk_retransmissions"),
    )
    op.create_index(
        "ix_retransmissions_newest", "retransmissions", ["subscription_id", "requested_at", "id"]
    )
    # An index for workers. It stays small even if many retransmissions have ended.
    op.create_index(
        "ix_retransmissions_sending",
        "retransmissions",
        ["requested_at"],
        postgresql_where=sa.text("state = 'SENDING'"),
    )


def _create_retransmission_runs() -> None:
    create_result(
        "retransmission_runs",
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("undelivered", sa.BigInteger()),
        sa.Column("archived", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        of="retransmissions.id",
    )
    op.create_index(
        "ix_retransmission_runs_place",
        "retransmission_runs",
        ["job_id", "attempt", "partition", "start"],
    )


def _create_retransmission_records() -> None:
    create_result(
        "retransmission_records",
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.LargeBinary()),
        sa.Column("value", sa.LargeBinary()),
        sa.Column("header_names", postgresql.ARRAY(sa.LargeBinary()), nullable=False),
        sa.Column("header_values", postgresql.ARRAY(sa.LargeBinary()), nullable=False),
        of="retransmissions.id",
    )
    op.create_index(
        "ix_retransmission_records_place",
        "retransmission_records",
        ["job_id", "attempt", "partition", "offset"],
    )


def _create_retransmission_sent() -> None:
    op.create_table(
        "retransmission_sent",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("source_partition", sa.Integer(), nullable=False),
        sa.Column("source_offset", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        gone_with("retransmissions.id", table="retransmission_sent", column="job_id"),
        sa.PrimaryKeyConstraint(
            "job_id", "source_partition", "source_offset", name="pk_retransmission_sent"
        ),
    )
    op.create_index(
        "ix_retransmission_sent_place", "retransmission_sent", ["job_id", "partition", "offset"]
    )
