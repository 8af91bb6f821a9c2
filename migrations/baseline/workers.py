"""The tables of the workers' reports, and of the data that workers share."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.baseline.columns import gone_with, time_of_transaction, time_of_writing

TABLES: Final = (
    "applied_clock",
    "workers",
    "cursors",
    "subscription_loads",
    "circuits",
    "rate_notes",
    "recorder_positions",
    "published_ids",
)


def create() -> None:
    """Create the tables of workers."""
    _create_applied_clock()
    _create_workers()
    _create_cursors()
    _create_subscription_loads()
    _create_circuits()
    _create_rate_notes()
    _create_recorder_positions()
    _create_published_ids()


def _create_applied_clock() -> None:
    op.create_table(
        "applied_clock",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name="ck_applied_clock_single_row"),
        sa.PrimaryKeyConstraint("id", name="pk_applied_clock"),
    )
    op.execute("INSERT INTO applied_clock (id, number) VALUES (1, 0)")


def _create_workers() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("applied_change", sa.BigInteger(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        time_of_transaction("seen_at"),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )


def _create_cursors() -> None:
    # There is no foreign key. If a report names a subscription that was just deleted, the other
    # reports must not fail.
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
        time_of_transaction("seen_at"),
        sa.Column("filtered", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("position", sa.BigInteger()),
        sa.PrimaryKeyConstraint("subscription_id", "partition", name="pk_cursors"),
        # Rows are updated every second. With free space on the page, an updated row stays on its
        # page.
        postgresql_with={"fillfactor": 50},
    )


def _create_subscription_loads() -> None:
    op.create_table(
        "subscription_loads",
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("window", sa.Interval(), nullable=False),
        sa.Column("in_flight", sa.Integer(), nullable=False),
        sa.Column("parked", sa.Integer(), nullable=False),
        sa.Column("counts", postgresql.JSONB(), nullable=False),
        time_of_transaction("seen_at"),
        sa.PrimaryKeyConstraint("subscription_id", "worker_id", name="pk_subscription_loads"),
        # Rows are updated every second. With free space on the page, an updated row stays on its
        # page.
        postgresql_with={"fillfactor": 50},
    )


def _create_circuits() -> None:
    op.create_table(
        "circuits",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("opens_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        time_of_writing("changed_at"),
        sa.Column("tried_by", sa.Text()),
        sa.Column("tried_until", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("name", name="pk_circuits"),
    )


def _create_rate_notes() -> None:
    op.create_table(
        "rate_notes",
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("lent", postgresql.JSONB(), nullable=False),
        sa.Column("heard", postgresql.JSONB(), nullable=False),
        time_of_writing("seen_at"),
        sa.PrimaryKeyConstraint("subscription_id", "worker_id", name="pk_rate_notes"),
        # Rows are updated every second. With free space on the page, an updated row stays on its
        # page.
        postgresql_with={"fillfactor": 50},
    )


def _create_recorder_positions() -> None:
    op.create_table(
        "recorder_positions",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "partition", name="pk_recorder_positions"),
    )


def _create_published_ids() -> None:
    op.create_table(
        "published_ids",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        time_of_writing("recorded_at"),
        sa.Column("stored_as", sa.Text()),
        gone_with("topics.name", table="published_ids", column="topic"),
        sa.PrimaryKeyConstraint("topic", "message_id", name="pk_published_ids"),
    )
    op.create_index("ix_published_ids_age", "published_ids", ["topic", "recorded_at"])
