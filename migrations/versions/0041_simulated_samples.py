"""Simulations: the first messages on which proposed and present filters differ.

Revision ID: 0041
Revises: 0030
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0041"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    samples = sa.Column(
        "samples", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False
    )
    op.add_column("simulations", samples)


def downgrade() -> None:
    op.drop_column("simulations", "samples")
