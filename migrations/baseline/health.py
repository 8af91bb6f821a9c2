"""The tables of leases, of the health of subscriptions, and of alerts."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

TABLES: Final = ("leases", "standings", "alerts")


def create() -> None:
    """Create the tables of health."""
    _create_leases()
    _create_standings()
    _create_alerts()


def _create_leases() -> None:
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("renewed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )


def _create_standings() -> None:
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


def _create_alerts() -> None:
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
        sa.Column("cleared_at", sa.DateTime(timezone=True)),
        sa.Column("announced", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alerts"),
    )
    op.create_index("ix_alerts_raised_at", "alerts", ["raised_at"])
    op.create_index(
        "ix_alerts_unannounced", "alerts", ["raised_at"], postgresql_where=sa.text("announced < 2")
    )
    op.create_index(
        "uq_alerts_active",
        "alerts",
        ["subscription_id", "kind"],
        unique=True,
        postgresql_where=sa.text("cleared_at IS NULL"),
    )
