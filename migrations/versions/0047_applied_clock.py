"""Applied clock: the last change that any worker has ever applied, also when none is live.

Revision ID: 0047
Revises: 0046
"""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "applied_clock",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name="ck_applied_clock_single_row"),
        sa.PrimaryKeyConstraint("id", name="pk_applied_clock"),
    )
    op.execute(
        "INSERT INTO applied_clock (id, number)"
        " SELECT 1, coalesce(max(applied_change), 0) FROM workers"
    )


def downgrade() -> None:
    op.drop_table("applied_clock")
