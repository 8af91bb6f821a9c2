"""The ids that publishers gave, for topics with an idempotent filter.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "published_ids",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column(
            "recorded_at",
            sa.DateTime(timezone=True),
            server_default=sa.func.clock_timestamp(),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("topic", "message_id", name="pk_published_ids"),
        sa.ForeignKeyConstraint(
            ["topic"], ["topics.name"], name="fk_published_ids_topic_topics", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_published_ids_age", "published_ids", ["topic", "recorded_at"])


def downgrade() -> None:
    op.drop_table("published_ids")
