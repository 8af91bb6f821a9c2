"""Let one job make the ledger entries of many subscriptions.

Revision ID: 0056
Revises: 0055
"""

import sqlalchemy as sa
from alembic import op

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None

_COUNTED = ("ledger_counts", "ledger_discards")


def upgrade() -> None:
    for table in _COUNTED:
        # Version 0.1.0 writes rows without it: its jobs have one subscription each.
        op.add_column(
            table, sa.Column("subscription_id", sa.Text(), nullable=False, server_default="")
        )
        op.drop_constraint(f"fk_{table}_job_id_ledger_requests", table)
        _refer(table, "spark_jobs", "id")
    _identify(["job_id", "subscription_id"])


def downgrade() -> None:
    # Jobs of many subscriptions are unknown to the version before, with all that is theirs.
    op.execute("DELETE FROM spark_jobs WHERE kind = 'LEDGERS'")
    _identify(["job_id"])
    for table in _COUNTED:
        op.drop_constraint(f"fk_{table}_job_id_spark_jobs", table)
        _refer(table, "ledger_requests", "job_id")
        op.drop_column(table, "subscription_id")


def _identify(columns: list[str]) -> None:
    op.drop_constraint("pk_ledger_requests", "ledger_requests")
    op.create_primary_key("pk_ledger_requests", "ledger_requests", columns)


def _refer(table: str, to: str, column: str) -> None:
    name = f"fk_{table}_job_id_{to}"
    op.create_foreign_key(name, table, to, ["job_id"], [column], ondelete="CASCADE")
