"""Settings of subscriptions beyond their policy, so that a new one needs no column.

Topics have had such a column from the beginning.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A constant default is kept in the catalogue: no row is rewritten, and a version of before,
    # which does not know the column, can go on inserting.
    op.add_column(
        "subscriptions",
        sa.Column(
            "settings", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
    )


def downgrade() -> None:
    op.drop_column("subscriptions", "settings")
