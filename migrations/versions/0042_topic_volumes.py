"""Bytes that were published to each topic.

Revision ID: 0042
Revises: 0043
"""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "topic_volumes",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("volume", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["topic"],
            ["topics.name"],
            name=op.f("fk_topic_volumes_topic_topics"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_topic_volumes")),
    )


def downgrade() -> None:
    op.drop_table("topic_volumes")
