"""Published ids: the id that the stored message has, where it is known again by another one.

Revision ID: 0044
Revises: 0041
"""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("published_ids", sa.Column("stored_as", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("published_ids", "stored_as")
