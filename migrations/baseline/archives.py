"""The tables of archives: folders of Parquet files, their content, and archived offsets."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.baseline.columns import time_of_writing

TABLES: Final = ("archive_folders", "archive_pieces", "archive_positions")


def create() -> None:
    """Create the tables of archives."""
    _create_archive_folders()
    _create_archive_pieces()
    _create_archive_positions()


def _create_archive_folders() -> None:
    op.create_table(
        "archive_folders",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("topic_created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("spans", postgresql.JSONB(), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'WRITING'"), nullable=False),
        time_of_writing("begun_at"),
        sa.Column("dropped_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint(
            "state IN ('WRITING', 'KEPT', 'DROPPED')", name="ck_archive_folders_state"
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "topic", name="pk_archive_folders"),
    )
    op.create_index(
        "ix_archive_folders_topic",
        "archive_folders",
        ["topic", "begun_at"],
        postgresql_where=sa.text("state = 'KEPT'"),
    )


def _create_archive_pieces() -> None:
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
            ["job_id", "attempt", "topic"],
            ["archive_folders.job_id", "archive_folders.attempt", "archive_folders.topic"],
            name="fk_archive_pieces_job_id_attempt_topic_archive_folders",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "job_id", "attempt", "topic", "day", "partition", name="pk_archive_pieces"
        ),
    )


def _create_archive_positions() -> None:
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
