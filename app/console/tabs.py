"""The tabs at the top of a topic's pages and of a subscription's pages."""

from collections.abc import Sequence
from typing import Final, NamedTuple


class Tab(NamedTuple):
    """A link to a page of a topic or subscription. An empty path leads to its first page."""

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
