"""Retransmissions of what only the archive has: its records wait beside what was chosen.

Revision ID: 0026
Revises: 0027
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0026"
down_revision = "0027"
branch_labels = None
depends_on = None

_KEY = ("job_id", "attempt", "part", "row")
_COUNTS = ("archived", "archived_size", "gone")


def upgrade() -> None:
    for name in _COUNTS:
        op.add_column(
            "retransmissions",
            sa.Column(name, sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        )
    op.add_column(
        "retransmission_runs",
        sa.Column("archived", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
    op.create_table(
        "retransmission_records",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=True),
        sa.Column("value", sa.LargeBinary(), nullable=True),
        sa.Column("header_names", postgresql.ARRAY(sa.LargeBinary()), nullable=False),
        sa.Column("header_values", postgresql.ARRAY(sa.LargeBinary()), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["retransmissions.id"],
            name="fk_retransmission_records_job_id_retransmissions",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(*_KEY, name="pk_retransmission_records"),
    )
    op.create_index(
        "ix_retransmission_records_place",
        "retransmission_records",
        ["job_id", "attempt", "partition", "offset"],
    )


def downgrade() -> None:
    op.drop_table("retransmission_records")
    op.drop_column("retransmission_runs", "archived")
    for name in _COUNTS:
        op.drop_column("retransmissions", name)
