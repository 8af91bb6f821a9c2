"""The embedded message log.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables of topics, records, commits and owners."""
    _create_topics()
    _create_records()
    _create_offsets()
    _create_ownership()


def downgrade() -> None:
    """Drop the embedded log with all that is in it."""
    for table in (
        "log_owners",
        "log_members",
        "log_offsets",
        "log_records",
        "log_partitions",
        "log_topics",
    ):
        op.drop_table(table)


def _create_topics() -> None:
    op.create_table(
        "log_topics",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("name", sa.Text()),
        sa.Column("retention_ms", sa.BigInteger(), nullable=False),
        sa.Column("message_size_max", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="log_topics_pkey"),
        sa.UniqueConstraint("name", name="log_topics_name_key"),
    )
    op.create_table(
        "log_partitions",
        sa.Column("topic_id", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("start_offset", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("next_offset", sa.BigInteger(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("topic_id", "partition", name="log_partitions_pkey"),
        sa.ForeignKeyConstraint(
            ["topic_id"], ["log_topics.id"], name="log_partitions_topic_id_fkey"
        ),
        postgresql_with={"fillfactor": 50},
    )


def _create_records() -> None:
    op.create_table(
        "log_records",
        sa.Column("topic_id", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger(), nullable=False),
        _time_of_writing("appended_at"),
        sa.Column("key", sa.LargeBinary()),
        sa.Column("value", sa.LargeBinary()),
        sa.Column("headers", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("topic_id", "partition", "offset", name="log_records_pkey"),
    )


def _create_offsets() -> None:
    op.create_table(
        "log_offsets",
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("topic_id", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        _time_of_writing("committed_at"),
        sa.PrimaryKeyConstraint("group_name", "topic_id", "partition", name="log_offsets_pkey"),
        _of_partition("log_offsets_partition_fkey"),
    )
    op.create_index("log_offsets_partition_idx", "log_offsets", ["topic_id", "partition"])


def _create_ownership() -> None:
    op.create_table(
        "log_members",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("capacity", sa.Float(), nullable=False),
        sa.Column("topics", postgresql.ARRAY(sa.Text()), nullable=False, server_default="{}"),
        _time_of_writing("seen_at"),
        sa.PrimaryKeyConstraint("id", name="log_members_pkey"),
    )
    op.create_table(
        "log_owners",
        sa.Column("topic_id", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("member_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("topic_id", "partition", name="log_owners_pkey"),
        sa.ForeignKeyConstraint(
            ["member_id"],
            ["log_members.id"],
            name="log_owners_member_id_fkey",
            ondelete="CASCADE",
        ),
        _of_partition("log_owners_partition_fkey"),
    )
    op.create_index("log_owners_member_id_idx", "log_owners", ["member_id"])


def _time_of_writing(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())


def _of_partition(name: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["topic_id", "partition"],
        ["log_partitions.topic_id", "log_partitions.partition"],
        name=name,
        ondelete="CASCADE",
    )
