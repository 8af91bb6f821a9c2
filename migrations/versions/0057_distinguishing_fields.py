"""Store which fields distinguish the messages of a cluster of failures.

Revision ID: 0057
Revises: 0056
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0057"
down_revision = "0056"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Runners of version 0.1.0 do not write it.
    none = sa.text("'[]'::jsonb")
    op.add_column(
        "analytics_failures", sa.Column("fields", JSONB(), nullable=False, server_default=none)
    )


def downgrade() -> None:
    op.drop_column("analytics_failures", "fields")
