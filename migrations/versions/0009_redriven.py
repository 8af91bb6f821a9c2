"""Which undelivered messages were sent again, and the keys that keep them in order then.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A version of before, which does not know the columns, can go on inserting.
    op.add_column("undelivered", sa.Column("key", sa.LargeBinary(), nullable=True))
    op.add_column(
        "undelivered", sa.Column("redriven_at", sa.DateTime(timezone=True), nullable=True)
    )
    op.add_column("undelivered", sa.Column("redrive_id", sa.Text(), nullable=True))
    # Recording waits while it is built, deliveries do not: what is recorded is in the log.
    op.create_index(
        "ix_undelivered_to_redrive",
        "undelivered",
        ["subscription_id", "discarded_at", "id"],
        postgresql_where=sa.text("redriven_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_undelivered_to_redrive", table_name="undelivered")
    op.drop_column("undelivered", "redrive_id")
    op.drop_column("undelivered", "redriven_at")
    op.drop_column("undelivered", "key")
