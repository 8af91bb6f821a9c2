"""The control plane: what there is to deliver, who delivers it, and what could not be delivered.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_feed()
    _create_topics()
    _create_subscriptions()
    _create_reports()
    _create_undelivered()


def downgrade() -> None:
    for table in (
        "recorder_positions",
        "undelivered",
        "subscription_loads",
        "cursors",
        "workers",
        "subscriptions",
        "topics",
        "groups",
        "tombstones",
        "change_clock",
    ):
        op.drop_table(table)


def _create_feed() -> None:
    op.create_table(
        "change_clock",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name="ck_change_clock_single_row"),
        sa.PrimaryKeyConstraint("id", name="pk_change_clock"),
    )
    op.create_table(
        "tombstones",
        sa.Column("change", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        _time_of_writing("deleted_at"),
        sa.CheckConstraint("kind IN ('topic', 'subscription')", name="ck_tombstones_kind"),
        sa.PrimaryKeyConstraint("change", name="pk_tombstones"),
    )
    op.execute("INSERT INTO change_clock (id, number) VALUES (1, 0)")


def _create_topics() -> None:
    op.create_table(
        "groups",
        sa.Column("name", sa.Text(), nullable=False),
        _time_of_writing("created_at"),
        sa.PrimaryKeyConstraint("name", name="pk_groups"),
    )
    op.create_table(
        "topics",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("owner_source", sa.Text(), nullable=False),
        sa.Column("owner_id", sa.Text(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("settings", postgresql.JSONB(), nullable=False),
        _time_of_writing("created_at"),
        _time_of_writing("modified_at"),
        sa.Column("change", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_name"], ["groups.name"], name="fk_topics_group_name_groups"
        ),
        sa.PrimaryKeyConstraint("name", name="pk_topics"),
    )
    op.create_index("ix_topics_change", "topics", ["change"], unique=False)
    op.create_index("ix_topics_group_name", "topics", ["group_name"], unique=False)


def _create_subscriptions() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("owner_source", sa.Text(), nullable=False),
        sa.Column("owner_id", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("contact", sa.Text(), nullable=False),
        sa.Column("policy", postgresql.JSONB(), nullable=False),
        sa.Column("start", postgresql.JSONB(), nullable=False),
        _time_of_writing("created_at"),
        _time_of_writing("modified_at"),
        sa.Column("change", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["topic"], ["topics.name"], name="fk_subscriptions_topic_topics"),
        sa.PrimaryKeyConstraint("id", name="pk_subscriptions"),
        sa.UniqueConstraint("topic", "name", name="uq_subscriptions_topic_name"),
    )
    op.create_index("ix_subscriptions_change", "subscriptions", ["change"], unique=False)


def _create_reports() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("applied_change", sa.BigInteger(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        _time_of_writing("seen_at"),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_table(
        "cursors",
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("delivered", sa.BigInteger(), nullable=False),
        sa.Column("discarded", sa.BigInteger(), nullable=False),
        sa.Column("volume", sa.BigInteger(), nullable=False),
        _time_of_writing("seen_at"),
        sa.PrimaryKeyConstraint("subscription_id", "partition", name="pk_cursors"),
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "subscription_loads",
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("window", sa.Interval(), nullable=False),
        sa.Column("in_flight", sa.Integer(), nullable=False),
        sa.Column("parked", sa.Integer(), nullable=False),
        sa.Column("counts", postgresql.JSONB(), nullable=False),
        _time_of_writing("seen_at"),
        sa.PrimaryKeyConstraint("subscription_id", "worker_id", name="pk_subscription_loads"),
        postgresql_with={"fillfactor": 50},
    )


def _create_undelivered() -> None:
    op.create_table(
        "undelivered",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("discarded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("headers", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_undelivered"),
        sa.UniqueConstraint(
            "subscription_id",
            "partition",
            "offset",
            "message_id",
            "discarded_at",
            name="uq_undelivered_discard",
        ),
    )
    op.create_index(
        "ix_undelivered_newest",
        "undelivered",
        ["subscription_id", "discarded_at", "id"],
        unique=False,
    )
    op.create_table(
        "recorder_positions",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "partition", name="pk_recorder_positions"),
    )


def _time_of_writing(name: str) -> sa.Column[object]:
    return sa.Column(
        name, sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
    )
