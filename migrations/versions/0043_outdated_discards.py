"""Undelivered messages: which discards are not the last of their message.

Revision ID: 0043
Revises: 0044
"""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "undelivered",
        sa.Column("outdated", sa.Boolean(), server_default=sa.false(), nullable=False),
    )


def downgrade() -> None:
    op.drop_column("undelivered", "outdated")
