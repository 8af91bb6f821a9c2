"""Find the discards of a time without reading others.

Revision ID: 0058
Revises: 0057
"""

from alembic import op

revision = "0058"
down_revision = "0057"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Discards wait in their stream until the index is built. Deliveries do not wait.
    op.create_index("ix_undelivered_time", "undelivered", ["discarded_at", "id"])


def downgrade() -> None:
    op.drop_index("ix_undelivered_time", "undelivered")
