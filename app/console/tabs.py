"""The pages of one topic and of one subscription, for the row of links at their top."""

from collections.abc import Sequence
from typing import Final, NamedTuple


class Tab(NamedTuple):
    """A page below that of a topic or subscription; an empty path is that page itself."""

    title: str
    path: str


TOPIC_TABS: Final[Sequence[Tab]] = (
    Tab("Overview", ""),
    Tab("Newest messages", "newest"),
    Tab("Undelivered", "undelivered"),
)
SUBSCRIPTION_TABS: Final[Sequence[Tab]] = (
    Tab("Overview", ""),
    Tab("Settings", "edit"),
    Tab("Undelivered", "undelivered"),
    Tab("Send again", "resend"),
    Tab("Move", "move"),
    Tab("Ledger", "ledger"),
    Tab("Filters", "filters"),
    Tab("Signing secrets", "secrets"),
)
