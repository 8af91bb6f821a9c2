"""Numbered changes of topics and subscriptions."""

from dataclasses import dataclass

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The current state of all topics and subscriptions that changed after a given change.

    Changes are numbered in the order in which the database commits them: when a reader sees a
    number, it sees all lower numbers. So a reader that has applied `number`, the last change here,
    has seen every change up to it. A new reader starts from 0 and gets everything.
    """

    number: int
    topics: tuple[Topic, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    deleted_topics: frozenset[str] = frozenset()
    deleted_subscription_ids: frozenset[str] = frozenset()
