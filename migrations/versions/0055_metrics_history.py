"""Record the history of metrics.

A history begins with the first minute after this migration. Earlier counts are not included.

Revision ID: 0055
Revises: 0054
"""

import sqlalchemy as sa
from alembic import op

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None

_NOTHING = sa.text("0")
_EMPTY = sa.text("''::bytea")


def upgrade() -> None:
    op.create_table(
        "metrics_history",
        sa.Column("start", sa.DateTime(timezone=True), nullable=False),
        sa.Column("source", sa.Integer(), nullable=False),
        sa.Column("step", sa.SmallInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("step", "source", "start", name="pk_metrics_history"),
        postgresql_partition_by="RANGE (step, start)",
    )
    op.create_table(
        "metrics_recorded",
        sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("published", sa.BigInteger()),
        sa.Column("delivered", sa.BigInteger(), nullable=False, server_default=_NOTHING),
        sa.Column("discarded", sa.BigInteger(), nullable=False, server_default=_NOTHING),
        sa.Column("filtered", sa.BigInteger(), nullable=False, server_default=_NOTHING),
        sa.Column("lag", sa.BigInteger(), nullable=False, server_default=_NOTHING),
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("topic", sa.Text()),
        sa.Column("subscription_id", sa.Text()),
        sa.Column("workers", sa.LargeBinary(), nullable=False, server_default=_EMPTY),
        sa.Column("minutes", sa.LargeBinary(), nullable=False, server_default=_EMPTY),
        sa.ForeignKeyConstraint(
            ["topic"],
            ["topics.name"],
            name="fk_metrics_recorded_topic_topics",
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["subscription_id"],
            ["subscriptions.id"],
            name="fk_metrics_recorded_subscription_id_subscriptions",
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_metrics_recorded"),
        postgresql_with={"fillfactor": 50},
    )
    op.create_index("uq_metrics_recorded_topic", "metrics_recorded", ["topic"], unique=True)
    op.create_index(
        "uq_metrics_recorded_subscription_id",
        "metrics_recorded",
        ["subscription_id"],
        unique=True,
    )
    # Do not compress the column: its bytes are compressed already, or will be.
    op.execute("ALTER TABLE metrics_history ALTER body SET STORAGE EXTERNAL")
    op.execute("ALTER TABLE metrics_recorded ALTER minutes SET STORAGE EXTERNAL")
    op.execute(
        "INSERT INTO metrics_recorded (hour, topic)"
        " SELECT date_trunc('hour', now(), 'UTC'), name FROM topics"
    )
    op.execute(
        "INSERT INTO metrics_recorded (hour, subscription_id, delivered, discarded, filtered)"
        " SELECT date_trunc('hour', now(), 'UTC'), subscriptions.id,"
        " coalesce(sum(cursors.delivered), 0), coalesce(sum(cursors.discarded), 0),"
        " coalesce(sum(cursors.filtered), 0)"
        " FROM subscriptions LEFT JOIN cursors ON cursors.subscription_id = subscriptions.id"
        " GROUP BY subscriptions.id"
    )


def downgrade() -> None:
    op.drop_table("metrics_history")
    op.drop_table("metrics_recorded")
