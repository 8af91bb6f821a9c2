"""Traces by the pack; `traces`, with those of before by the row, goes on to be read.

Revision ID: 0025
Revises: 0022
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0025"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "trace_packs",
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sources", postgresql.ARRAY(sa.Integer()), nullable=False),
        sa.Column("partitions", postgresql.ARRAY(sa.Integer()), nullable=False),
        sa.Column("first_offsets", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("message_keys", postgresql.ARRAY(sa.Integer()), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        postgresql_partition_by="RANGE (at)",
    )
    # Each partition gets its own when it is made.
    op.create_index(
        "ix_trace_packs_message_keys",
        "trace_packs",
        ["message_keys"],
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
    )
    # Both are as random as they can be: to compress them would cost CPU for nothing.
    op.execute("ALTER TABLE trace_packs ALTER body SET STORAGE EXTERNAL")
    op.execute("ALTER TABLE trace_packs ALTER message_keys SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.drop_table("trace_packs")
