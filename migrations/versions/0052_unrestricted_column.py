"""Keep beside their settings that OAuth providers are everybody's.

Processes of the version before store settings without what they do not know: one that changes a
provider while others are upgraded would make it the admins' alone, and its subscriptions would get
no more tokens.

Revision ID: 0052
Revises: 0051
"""

from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE oauth_providers ADD COLUMN unrestricted boolean NOT NULL DEFAULT false")
    op.execute(
        "UPDATE oauth_providers SET unrestricted = true, settings = settings - 'unrestricted'"
        " WHERE settings @> '{\"unrestricted\": true}'"
    )


def downgrade() -> None:
    op.execute(
        "UPDATE oauth_providers SET settings = settings || '{\"unrestricted\": true}'"
        " WHERE unrestricted"
    )
    op.execute("ALTER TABLE oauth_providers DROP COLUMN unrestricted")
