"""Retransmissions: what was asked for, which messages were chosen, and where they were appended.

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "retransmissions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("request", postgresql.JSONB(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column(
            "requested_at",
            sa.DateTime(timezone=True),
            server_default=sa.func.clock_timestamp(),
            nullable=False,
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("matched", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("size", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("written", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("finished", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "samples", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False
        ),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["id"],
            ["spark_jobs.id"],
            name="fk_retransmissions_id_spark_jobs",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_retransmissions"),
    )
    op.create_index(
        "ix_retransmissions_newest", "retransmissions", ["subscription_id", "requested_at", "id"]
    )
    op.create_index(
        "ix_retransmissions_sending",
        "retransmissions",
        ["requested_at"],
        postgresql_where=sa.text("state = 'SENDING'"),
    )
    op.create_table(
        "retransmission_runs",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("undelivered", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["retransmissions.id"],
            name="fk_retransmission_runs_job_id_retransmissions",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "part", "row", name="pk_retransmission_runs"),
    )
    op.create_index(
        "ix_retransmission_runs_place",
        "retransmission_runs",
        ["job_id", "attempt", "partition", "start"],
    )
    op.create_table(
        "retransmission_sent",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("source_partition", sa.Integer(), nullable=False),
        sa.Column("source_offset", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["retransmissions.id"],
            name="fk_retransmission_sent_job_id_retransmissions",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "job_id", "source_partition", "source_offset", name="pk_retransmission_sent"
        ),
    )
    op.create_index(
        "ix_retransmission_sent_place", "retransmission_sent", ["job_id", "partition", "offset"]
    )


def downgrade() -> None:
    op.drop_table("retransmission_sent")
    op.drop_table("retransmission_runs")
    op.drop_table("retransmissions")
