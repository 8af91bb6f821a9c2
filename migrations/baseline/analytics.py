"""The tables of the results of analyses."""

from typing import Final

import sqlalchemy as sa

from migrations.baseline.columns import create_result

TABLES: Final = ("analytics_latency", "analytics_undelivered", "analytics_failures")
_PARTS: Final = ("total", "queued", "waited", "connect", "subscriber")
_FIGURES: Final = ("mean", "p50", "p95", "p99", "max")


def create() -> None:
    """Create the tables of analyses."""
    _create_analytics_latency()
    _create_analytics_undelivered()
    _create_analytics_failures()


def _create_analytics_latency() -> None:
    create_result(
        "analytics_latency",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription_id", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("delivered", sa.BigInteger(), nullable=False),
        sa.Column("discarded", sa.BigInteger(), nullable=False),
        sa.Column("unknown", sa.BigInteger(), nullable=False),
        sa.Column("resent", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        # NULL if the job has no SLO.
        sa.Column("within", sa.BigInteger()),
        # NULL if nothing was delivered.
        *(
            sa.Column(f"{part}_{figure}_us", sa.BigInteger())
            for part in _PARTS
            for figure in _FIGURES
        ),
        of="spark_jobs.id",
    )


def _create_analytics_undelivered() -> None:
    create_result(
        "analytics_undelivered",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subscription", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("volume", sa.BigInteger(), nullable=False),
        of="spark_jobs.id",
    )


def _create_analytics_failures() -> None:
    create_result(
        "analytics_failures",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("shape", sa.Text(), nullable=False),
        sa.Column("pattern", sa.Text(), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("subscriptions", sa.BigInteger(), nullable=False),
        sa.Column("shapes", sa.BigInteger(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("example_id", sa.Text(), nullable=False),
        sa.Column("example_subscription", sa.Text(), nullable=False),
        sa.Column("example_reason", sa.Text(), nullable=False),
        of="spark_jobs.id",
    )
