"""Undelivered messages by topic and by message id.

Revision ID: 0014
Revises: 0013
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Recording waits while they are built, deliveries do not: what is recorded is in the log.
    op.create_index("ix_undelivered_topic", "undelivered", ["topic", "discarded_at", "id"])
    op.create_index("ix_undelivered_message", "undelivered", ["message_id"])


def downgrade() -> None:
    op.drop_index("ix_undelivered_message", table_name="undelivered")
    op.drop_index("ix_undelivered_topic", table_name="undelivered")
