"""Simulations: what is asked for, and what would have been.

Revision ID: 0029
Revises: 0026
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0029"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "simulations",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("request", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_simulations"),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["spark_jobs.id"],
            name="fk_simulations_job_id_spark_jobs",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "simulated_minutes",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        sa.Column("minute", sa.DateTime(timezone=True), nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("read", "matched", "present", "added", "size", "peak")
        ),
        sa.Column("backlog", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", "part", "row", name="pk_simulated_minutes"),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["simulations.job_id"],
            name="fk_simulated_minutes_job_id_simulations",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    op.drop_table("simulated_minutes")
    op.drop_table("simulations")
