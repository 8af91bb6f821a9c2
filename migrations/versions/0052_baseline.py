"""All tables of version 0.1.0.

A database at revision 0052 already has these tables, from earlier migrations that no release had.
Its migration continues from here. A database with an earlier revision is refused
(`app/storage/migrate.py`).

Revision ID: 0052
Revises:
"""

from alembic import op

from migrations.baseline import (
    access,
    analytics,
    archives,
    catalogue,
    discards,
    health,
    jobs,
    ledgers,
    message_log,
    operations,
    republishing,
    retransmissions,
    simulations,
    traces,
    workers,
)

revision = "0052"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Create tables in this order, because foreign keys refer to tables above.
    catalogue.create()
    operations.create()
    access.create()
    workers.create()
    discards.create()
    health.create()
    traces.create()
    message_log.create()
    jobs.create()
    analytics.create()
    archives.create()
    ledgers.create()
    simulations.create()
    retransmissions.create()
    republishing.create()


def downgrade() -> None:
    tables = (
        *catalogue.TABLES,
        *operations.TABLES,
        *access.TABLES,
        *workers.TABLES,
        *discards.TABLES,
        *health.TABLES,
        *traces.TABLES,
        *message_log.TABLES,
        *jobs.TABLES,
        *analytics.TABLES,
        *archives.TABLES,
        *ledgers.TABLES,
        *simulations.TABLES,
        *retransmissions.TABLES,
        *republishing.TABLES,
    )
    for table in reversed(tables):
        op.drop_table(table)
