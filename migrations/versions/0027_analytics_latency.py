"""How long messages took to their subscribers, as jobs find it.

Revision ID: 0027
Revises: 0025
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0025"
branch_labels = None
depends_on = None

_PARTS = ("total", "queued", "waited", "connect", "subscriber")
_FIGURES = ("mean", "p50", "p95", "p99", "max")
_COUNTS = ("messages", "delivered", "discarded", "unknown", "resent", "attempts")


def upgrade() -> None:
    op.create_table(
        "analytics_latency",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _COUNTS),
        sa.Column("within", sa.BigInteger(), nullable=True),
        *(
            sa.Column(f"{part}_{figure}_us", sa.BigInteger(), nullable=True)
            for part in _PARTS
            for figure in _FIGURES
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "part", "row", name="pk_analytics_latency"),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["spark_jobs.id"],
            name="fk_analytics_latency_job_id_spark_jobs",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    op.drop_table("analytics_latency")
