"""What workers say to each other to share the rates of subscriptions by demand.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rate_notes",
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("lent", postgresql.JSONB(), nullable=False),
        sa.Column("heard", postgresql.JSONB(), nullable=False),
        sa.Column(
            "seen_at",
            sa.DateTime(timezone=True),
            server_default=sa.func.clock_timestamp(),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("subscription_id", "worker_id", name="pk_rate_notes"),
        # Written every second: with room on the page, a row stays in place.
        postgresql_with={"fillfactor": 50},
    )


def downgrade() -> None:
    op.drop_table("rate_notes")
