"""The archive: folders of Parquet files, what is in them, and how far they reach.

Revision ID: 0022
Revises: 0024
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0022"
down_revision = "0024"
branch_labels = None
depends_on = None

_FOLDER = ("job_id", "attempt", "topic")


def upgrade() -> None:
    op.create_table(
        "archive_folders",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("topic_created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("spans", postgresql.JSONB(), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'WRITING'"), nullable=False),
        sa.Column(
            "begun_at",
            sa.DateTime(timezone=True),
            server_default=sa.func.clock_timestamp(),
            nullable=False,
        ),
        sa.Column("dropped_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('WRITING', 'KEPT', 'DROPPED')", name="ck_archive_folders_state"
        ),
        sa.PrimaryKeyConstraint(*_FOLDER, name="pk_archive_folders"),
    )
    op.create_index(
        "ix_archive_folders_topic",
        "archive_folders",
        ["topic", "begun_at"],
        postgresql_where=sa.text("state = 'KEPT'"),
    )
    op.create_table(
        "archive_pieces",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("first_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_ms", sa.BigInteger(), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            _FOLDER,
            [f"archive_folders.{name}" for name in _FOLDER],
            name="fk_archive_pieces_job_id_attempt_topic_archive_folders",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(*_FOLDER, "day", "partition", name="pk_archive_pieces"),
    )
    op.create_table(
        "archive_positions",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("topic_created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "topic", "topic_created_at", "partition", name="pk_archive_positions"
        ),
    )


def downgrade() -> None:
    op.drop_table("archive_positions")
    op.drop_table("archive_pieces")
    op.drop_table("archive_folders")
