"""The pages of the console, a module for each thing that they show.

A new page is listed here: its module's routes in ROUTES, and its section in SECTIONS.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from app.console.pages import (
    audit,
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
    subscription,
    subscription_form,
    topic,
    topics,
    trace,
    undelivered,
)
from app.console.view import PageRoute


class Section(NamedTuple):
    """An entry of the navigation. `letter` follows `g` on the keyboard."""

    name: str
    title: str
    path: tuple[str, ...]
    letter: str


SECTIONS: Final[Sequence[Section]] = (
    Section("now", "Now", (), "n"),
    Section("topics", "Topics", ("topics",), "t"),
    Section("messages", "Messages", ("messages",), "m"),
    Section("undelivered", "Undelivered", ("undelivered",), "u"),
    Section("jobs", "Jobs", ("jobs",), "j"),
    Section("operations", "Operations", ("operations",), "o"),
)

ROUTES: Final[Sequence[PageRoute]] = (
    *now.ROUTES,
    *search.ROUTES,
    *topics.ROUTES,
    *topic.ROUTES,
    *publish.ROUTES,
    *trace.ROUTES,
    *messages.ROUTES,
    *undelivered.ROUTES,
    *subscription.ROUTES,
    *subscription_form.ROUTES,
    *ledger.ROUTES,
    *resend.ROUTES,
    *jobs.ROUTES,
    *operations.ROUTES,
    *keys.ROUTES,
    *audit.ROUTES,
    *secrets.ROUTES,
    *filters.ROUTES,
    *move.ROUTES,
)
