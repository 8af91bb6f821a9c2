"""Changes of topics and subscriptions, in their order."""

from dataclasses import dataclass

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The current state of everything that changed after the change a reader knew.

    Changes are numbered in the order of their commits, without gaps that could be filled later: a
    reader that applied `number` has seen every change up to it. A reader that knows nothing starts
    from 0 and gets everything.
    """

    number: int
    topics: tuple[Topic, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    deleted_topics: frozenset[str] = frozenset()
    deleted_subscription_ids: frozenset[str] = frozenset()
