"""The tables of topics, subscriptions, OAuth providers, and the order of their changes."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.baseline.columns import gone_with, time_of_transaction

TABLES: Final = (
    "change_clock",
    "tombstones",
    "groups",
    "topics",
    "topic_volumes",
    "subscriptions",
    "oauth_providers",
)


def create() -> None:
    """Create the tables of the catalogue."""
    _create_change_clock()
    _create_tombstones()
    _create_groups()
    _create_topics()
    _create_topic_volumes()
    _create_subscriptions()
    _create_oauth_providers()


def _create_change_clock() -> None:
    op.create_table(
        "change_clock",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name="ck_change_clock_single_row"),
        sa.PrimaryKeyConstraint("id", name="pk_change_clock"),
    )
    op.execute("INSERT INTO change_clock (id, number) VALUES (1, 0)")


def _create_tombstones() -> None:
    op.create_table(
        "tombstones",
        sa.Column("change", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        time_of_transaction("deleted_at"),
        sa.CheckConstraint("kind IN ('topic', 'subscription')", name="ck_tombstones_kind"),
        sa.PrimaryKeyConstraint("change", name="pk_tombstones"),
    )


def _create_groups() -> None:
    op.create_table(
        "groups",
        sa.Column("name", sa.Text(), nullable=False),
        time_of_transaction("created_at"),
        sa.PrimaryKeyConstraint("name", name="pk_groups"),
    )


def _create_topics() -> None:
    op.create_table(
        "topics",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("owner_source", sa.Text(), nullable=False),
        sa.Column("owner_id", sa.Text(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("settings", postgresql.JSONB(), nullable=False),
        time_of_transaction("created_at"),
        time_of_transaction("modified_at"),
        sa.Column("change", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_name"], ["groups.name"], name="fk_topics_group_name_groups"
        ),
        sa.PrimaryKeyConstraint("name", name="pk_topics"),
    )
    op.create_index("ix_topics_change", "topics", ["change"])
    op.create_index("ix_topics_group_name", "topics", ["group_name"])
    op.create_index("ix_topics_owner", "topics", ["owner_source", "owner_id"])


def _create_topic_volumes() -> None:
    op.create_table(
        "topic_volumes",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("volume", sa.BigInteger(), nullable=False),
        gone_with("topics.name", table="topic_volumes", column="topic"),
        sa.PrimaryKeyConstraint("topic", name="pk_topic_volumes"),
    )


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
        time_of_transaction("created_at"),
        time_of_transaction("modified_at"),
        sa.Column("change", sa.BigInteger(), nullable=False),
        sa.Column(
            "settings", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.ForeignKeyConstraint(["topic"], ["topics.name"], name="fk_subscriptions_topic_topics"),
        sa.PrimaryKeyConstraint("id", name="pk_subscriptions"),
        sa.UniqueConstraint("topic", "name", name="uq_subscriptions_topic_name"),
    )
    op.create_index("ix_subscriptions_change", "subscriptions", ["change"])
    op.create_index("ix_subscriptions_owner", "subscriptions", ["owner_source", "owner_id"])


def _create_oauth_providers() -> None:
    op.create_table(
        "oauth_providers",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("settings", postgresql.JSONB(), nullable=False),
        time_of_transaction("created_at"),
        time_of_transaction("modified_at"),
        sa.Column("unrestricted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_oauth_providers"),
    )
