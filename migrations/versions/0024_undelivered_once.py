"""Each message of a subscription once among the undelivered, as it ended last.

Revision ID: 0024
Revises: 0021
"""

from alembic import op

revision = "0024"
down_revision = "0021"
branch_labels = None
depends_on = None

_PLACE = ["subscription_id", "partition", "offset", "message_id"]
_ENDED_BEFORE = """
DELETE FROM undelivered AS ended USING undelivered AS later
WHERE later.subscription_id = ended.subscription_id AND later.partition = ended.partition
  AND later."offset" = ended."offset" AND later.message_id = ended.message_id
  AND (later.discarded_at, later.id) > (ended.discarded_at, ended.id)
"""


def upgrade() -> None:
    # Recording waits meanwhile, deliveries do not: what is recorded is in the log. A version of
    # before can go on recording; it leaves what is there as it is.
    op.execute("LOCK TABLE undelivered IN SHARE ROW EXCLUSIVE MODE")
    op.execute(_ENDED_BEFORE)
    op.create_unique_constraint("uq_undelivered_place", "undelivered", _PLACE)
    op.drop_constraint("uq_undelivered_discard", "undelivered")


def downgrade() -> None:
    op.create_unique_constraint("uq_undelivered_discard", "undelivered", [*_PLACE, "discarded_at"])
    op.drop_constraint("uq_undelivered_place", "undelivered")
