"""How many messages the filters of a subscription kept from it, by cursor.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A version of before, which does not know the column, can go on inserting.
    op.add_column(
        "cursors",
        sa.Column("filtered", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
    )


def downgrade() -> None:
    op.drop_column("cursors", "filtered")
