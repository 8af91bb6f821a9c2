"""Ledger entries: the key that one is signed with, the signature, and how much it misses.

Revision ID: 0034
Revises: 0029
"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("ledger_entries", sa.Column("key_id", sa.Text(), nullable=True))
    op.add_column("ledger_entries", sa.Column("signature", sa.Text(), nullable=True))
    missing = sa.Column("missing", sa.BigInteger(), server_default=sa.text("0"), nullable=False)
    op.add_column("ledger_entries", missing)
    op.create_index(
        "ix_ledger_entries_missing",
        "ledger_entries",
        ["subscription_id"],
        postgresql_where=sa.text("missing > 0"),
    )


def downgrade() -> None:
    op.drop_index("ix_ledger_entries_missing", table_name="ledger_entries")
    op.drop_column("ledger_entries", "missing")
    op.drop_column("ledger_entries", "signature")
    op.drop_column("ledger_entries", "key_id")
