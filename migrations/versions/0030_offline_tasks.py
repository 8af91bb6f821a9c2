"""Offline retransmission: what is published once more, and how far that is.

Revision ID: 0030
Revises: 0031
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0030"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "offline_tasks",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("request", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_offline_tasks"),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["spark_jobs.id"],
            name="fk_offline_tasks_job_id_spark_jobs",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "offline_parts",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("start", "end", "position")
        ),
        sa.Column("ends", postgresql.JSONB(), nullable=False),
        sa.Column("term", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("appending_until", sa.DateTime(timezone=True), nullable=True),
        *(
            sa.Column(name, sa.BigInteger(), server_default=sa.text("0"), nullable=False)
            for name in ("written", "size", "refused")
        ),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "partition", name="pk_offline_parts"),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["offline_tasks.job_id"],
            name="fk_offline_parts_job_id_offline_tasks",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    op.drop_table("offline_parts")
    op.drop_table("offline_tasks")
