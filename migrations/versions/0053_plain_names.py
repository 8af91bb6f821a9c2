"""Give tables and columns the names that the code and the documents use.

This migration renames tables in place, so processes of an older commit stop working. That is
allowed only here, because no release had the old names.

Revision ID: 0053
Revises: 0052
"""

from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None

_TABLES = (("standings", "subscription_health"), ("undelivered_voids", "discard_retractions"))
# Rename these too, because indexes keep their names when PostgreSQL renames their table.
_INDEXES = (
    ("pk_standings", "pk_subscription_health"),
    ("ix_standings_unhealthy", "ix_subscription_health_unhealthy"),
    ("pk_undelivered_voids", "pk_discard_retractions"),
    ("ix_undelivered_voids_age", "ix_discard_retractions_age"),
)
_COLUMNS = (
    ("subscription_health", "standing", "health"),
    ("discard_retractions", "life", "producer_epoch"),
    ("undelivered", "life", "producer_epoch"),
    ("undelivered", "outdated", "superseded"),
    ("undelivered", "outdated_by", "superseded_by"),
    ("subscription_loads", "parked", "waiting_retries"),
    ("rate_notes", "heard", "followed"),
)


def upgrade() -> None:
    for before, after in _TABLES:
        op.rename_table(before, after)
    for before, after in _INDEXES:
        op.execute(f"ALTER INDEX {before} RENAME TO {after}")
    for table, before, after in _COLUMNS:
        op.alter_column(table, before, new_column_name=after)


def downgrade() -> None:
    for table, before, after in _COLUMNS:
        op.alter_column(table, after, new_column_name=before)
    for before, after in _INDEXES:
        op.execute(f"ALTER INDEX {after} RENAME TO {before}")
    for before, after in _TABLES:
        op.rename_table(after, before)
