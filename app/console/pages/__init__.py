"""The pages of the console. Each module has the pages about one subject.

Add the routes of a new module to ROUTES. Add an entry of the navigation to SECTIONS.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from app.console.pages import (
    analytics,
    analytics_csv,
    audit,
    certificates,
    filters,
    jobs,
    keys,
    ledger,
    messages,
    move,
    now,
    operations,
    publish,
    resend,
    search,
    secrets,
    simulate,
    subscription,
    subscription_form,
    topic,
    topic_form,
    topic_schema,
    topics,
    trace,
    undelivered,
)
from app.console.view import PageRoute


class Section(NamedTuple):
    """An entry of the navigation. The reader also opens it with the keys `g` and `letter`."""

    name: str
    title: str
    path: tuple[str, ...]
    letter: str


SECTIONS: Final[Sequence[Section]] = (
    Section("now", "Now", (), "n"),
    Section("topics", "Topics", ("topics",), "t"),
    Section("messages", "Messages", ("messages",), "m"),
    Section("undelivered", "Undelivered", ("undelivered",), "u"),
    Section("analytics", "Analytics", ("analytics",), "a"),
    Section("jobs", "Jobs", ("jobs",), "j"),
    Section("operations", "Operations", ("operations",), "o"),
)

ROUTES: Final[Sequence[PageRoute]] = (
    *now.ROUTES,
    *search.ROUTES,
    *topics.ROUTES,
    *topic.ROUTES,
    *topic_form.ROUTES,
    *topic_schema.ROUTES,
    *publish.ROUTES,
    *trace.ROUTES,
    *messages.ROUTES,
    *undelivered.ROUTES,
    *subscription.ROUTES,
    *subscription_form.ROUTES,
    *analytics.ROUTES,
    *analytics_csv.ROUTES,
    *ledger.ROUTES,
    *resend.ROUTES,
    *jobs.ROUTES,
    *operations.ROUTES,
    *keys.ROUTES,
    *audit.ROUTES,
    *secrets.ROUTES,
    *certificates.ROUTES,
    *filters.ROUTES,
    *move.ROUTES,
    *simulate.ROUTES,
)
