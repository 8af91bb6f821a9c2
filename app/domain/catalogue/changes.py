"""Numbered changes of topics and subscriptions."""

from dataclasses import dataclass

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """All topics and subscriptions that changed after a given change, in their current state.

    `number` is the number of the last change in this object. Changes are numbered in the order in
    which the database commits them. So a reader that sees a change also sees all changes with lower
    numbers, and a reader that has applied `number` has missed no change before it. A new reader
    asks for all changes after 0, and gets everything.
    """

    number: int
    topics: tuple[Topic, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    deleted_topics: frozenset[str] = frozenset()
    deleted_subscription_ids: frozenset[str] = frozenset()
