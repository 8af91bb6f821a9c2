"""Health: how subscriptions do, alerts, and who of all processes looks after them.

Revision ID: 0019
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0019"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("cursors", sa.Column("position", sa.BigInteger(), nullable=True))
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("renewed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.create_table(
        "standings",
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("unhealthy", sa.Boolean(), nullable=False),
        sa.Column("standing", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("subscription_id", name="pk_standings"),
    )
    op.create_index(
        "ix_standings_unhealthy",
        "standings",
        ["subscription_id"],
        postgresql_where=sa.text("unhealthy"),
    )
    op.create_table(
        "alerts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("details", postgresql.JSONB(), nullable=False),
        sa.Column("raised_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("cleared_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("announced", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alerts"),
    )
    op.create_index(
        "uq_alerts_active",
        "alerts",
        ["subscription_id", "kind"],
        unique=True,
        postgresql_where=sa.text("cleared_at IS NULL"),
    )
    op.create_index("ix_alerts_raised_at", "alerts", ["raised_at"])
    op.create_index(
        "ix_alerts_unannounced",
        "alerts",
        ["raised_at"],
        postgresql_where=sa.text("announced < 2"),
    )


def downgrade() -> None:
    op.drop_table("alerts")
    op.drop_table("standings")
    op.drop_table("leases")
    op.drop_column("cursors", "position")
