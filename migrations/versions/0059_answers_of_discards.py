"""Keep the start of what the subscriber answered with each discard.

Revision ID: 0059
Revises: 0058
"""

import sqlalchemy as sa
from alembic import op

revision = "0059"
down_revision = "0058"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Without a default, no row is written. Recorders of version 0.1.0 do not write the column.
    op.add_column("undelivered", sa.Column("answer", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("undelivered", "answer")
