"""OAuth providers that are there already stay everybody's, until they say whose they are.

Revision ID: 0051
Revises: 0047
"""

from alembic import op

revision = "0051"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("UPDATE oauth_providers SET settings = settings || '{\"unrestricted\": true}'")


def downgrade() -> None:
    op.execute("UPDATE oauth_providers SET settings = settings - 'unrestricted'")
