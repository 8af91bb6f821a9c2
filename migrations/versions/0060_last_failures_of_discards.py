"""Keep with each discard why its last attempt failed.

Revision ID: 0060
Revises: 0059
"""

import sqlalchemy as sa
from alembic import op

revision = "0060"
down_revision = "0059"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Without a default, no row is written. Recorders of earlier versions do not write the column.
    op.add_column("undelivered", sa.Column("last_failure", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("undelivered", "last_failure")
