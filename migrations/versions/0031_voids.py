"""Discards that are void: whose they are, and what of them does not count.

Revision ID: 0031
Revises: 0034
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("undelivered", sa.Column("life", sa.Text(), nullable=True))
    op.create_table(
        "undelivered_voids",
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("life", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("finished", sa.LargeBinary(), nullable=False),
        sa.Column(
            "recorded_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
        ),
        sa.PrimaryKeyConstraint(
            "subscription_id", "partition", "life", name="pk_undelivered_voids"
        ),
    )
    op.create_index("ix_undelivered_voids_age", "undelivered_voids", ["recorded_at"])


def downgrade() -> None:
    op.drop_table("undelivered_voids")
    op.drop_column("undelivered", "life")
