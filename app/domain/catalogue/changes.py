"""What changed in the control plane, in the order in which it changed."""

from dataclasses import dataclass

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """All that changed after the change a reader knew, as it stands now.

    Changes are numbered in the order in which they were committed, without a hole that could be
    filled later: a reader that has applied `number` has seen every change up to it. A reader that
    knows nothing asks from 0 and gets everything.
    """

    number: int
    topics: tuple[Topic, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    deleted_topics: frozenset[str] = frozenset()
    deleted_subscription_ids: frozenset[str] = frozenset()
