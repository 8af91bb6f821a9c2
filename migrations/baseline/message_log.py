"""The tables of the embedded message log."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.baseline.columns import time_of_transaction

TABLES: Final = (
    "log_topics",
    "log_partitions",
    "log_records",
    "log_offsets",
    "log_members",
    "log_owners",
)


def create() -> None:
    """Create the tables of the embedded log."""
    _create_log_topics()
    _create_log_partitions()
    _create_log_records()
    _create_log_offsets()
    _create_log_members()
    _create_log_owners()


def _create_log_topics() -> None:
    op.create_table(
        "log_topics",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("name", sa.Text()),
        sa.Column("retention_ms", sa.BigInteger(), nullable=False),
        sa.Column("message_size_max", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="log_topics_pkey"),
        sa.UniqueConstraint("name", name="log_topics_name_key"),
    )


def _create_log_partitions() -> None:
    op.create_table(
        "log_partitions",
        sa.Column("topic_id", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("start_offset", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("next_offset", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["topic_id"], ["log_topics.id"], name="log_partitions_topic_id_fkey"
        ),
        sa.PrimaryKeyConstraint("topic_id", "partition", name="log_partitions_pkey"),
        # Leave half of each page free, so that an updated row stays on its page and changes no
        # index.
        postgresql_with={"fillfactor": 50},
    )


def _create_log_records() -> None:
    # There is no foreign key, because it would be checked for each record.
    op.create_table(
        "log_records",
        sa.Column("topic_id", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger(), nullable=False),
        time_of_transaction("appended_at"),
        sa.Column("key", sa.LargeBinary()),
        sa.Column("value", sa.LargeBinary()),
        sa.Column("headers", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("topic_id", "partition", "offset", name="log_records_pkey"),
    )


def _create_log_offsets() -> None:
    op.create_table(
        "log_offsets",
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("topic_id", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        time_of_transaction("committed_at"),
        sa.ForeignKeyConstraint(
            ["topic_id", "partition"],
            ["log_partitions.topic_id", "log_partitions.partition"],
            name="log_offsets_partition_fkey",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("group_name", "topic_id", "partition", name="log_offsets_pkey"),
    )
    op.create_index("log_offsets_partition_idx", "log_offsets", ["topic_id", "partition"])


def _create_log_members() -> None:
    op.create_table(
        "log_members",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("capacity", sa.Float(), nullable=False),
        sa.Column("topics", postgresql.ARRAY(sa.Text()), server_default="{}", nullable=False),
        time_of_transaction("seen_at"),
        sa.PrimaryKeyConstraint("id", name="log_members_pkey"),
    )


def _create_log_owners() -> None:
    op.create_table(
        "log_owners",
        sa.Column("topic_id", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("member_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["member_id"], ["log_members.id"], name="log_owners_member_id_fkey", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["topic_id", "partition"],
            ["log_partitions.topic_id", "log_partitions.partition"],
            name="log_owners_partition_fkey",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("topic_id", "partition", name="log_owners_pkey"),
    )
    op.create_index("log_owners_member_id_idx", "log_owners", ["member_id"])
