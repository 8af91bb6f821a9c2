"""The tabs at the top of the pages of a topic, of a subscription, and of analyses."""

from collections.abc import Sequence
from typing import Final, NamedTuple


class Tab(NamedTuple):
    """A tab: a link to one of the pages of a topic, of a subscription, or of analyses.

    If `path` is empty, the link leads to the first of these pages.
    """

    title: str
    path: str


TOPIC_TABS: Final[Sequence[Tab]] = (
    Tab("Overview", ""),
    Tab("Settings", "edit"),
    Tab("Schema", "schema"),
    Tab("Newest messages", "newest"),
    Tab("Undelivered", "undelivered"),
    Tab("Partitions", "partitions"),
)
SUBSCRIPTION_TABS: Final[Sequence[Tab]] = (
    Tab("Overview", ""),
    Tab("Settings", "edit"),
    Tab("Undelivered", "undelivered"),
    Tab("Send again", "resend"),
    Tab("Move", "move"),
    Tab("Ledger", "ledger"),
    Tab("Filters", "filters"),
    Tab("Simulate", "simulate"),
    Tab("Signing secrets", "secrets"),
    Tab("Certificates", "certificates"),
)
ANALYTICS_TABS: Final[Sequence[Tab]] = (
    Tab("Failures", ""),
    Tab("Discarded", "counts"),
    Tab("Latency", "latency"),
)
