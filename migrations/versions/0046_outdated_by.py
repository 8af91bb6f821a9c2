"""Undelivered messages: by which later discard of its message one is outdated.

Revision ID: 0046
Revises: 0042
"""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("undelivered", sa.Column("outdated_by", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("undelivered", "outdated_by")
