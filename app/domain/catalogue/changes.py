"""Numbered changes of topics and subscriptions."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic


class LastChange(NamedTuple):
    """The last change that a reader of changes knows.

    Attributes:
        number: Its number.
        server: The start time of the database server that gave the number, to tell servers apart;
            None if it is not known. A replica that becomes the server may lack the last changes,
            and use their numbers again.
    """

    number: int
    server: datetime | None


# What a new reader knows.
NO_CHANGE: Final = LastChange(0, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """All topics and subscriptions that changed after a given change, in their current state.

    `number` is the number of the last change in this object. Changes are numbered in the order in
    which the database commits them. So a reader that sees a change also sees all changes with lower
    numbers, and a reader that has applied `number` has missed no change before it.

    A reader that is new, or whose last change is from another server, gets everything that exists.
    Then `is_complete` is true, and what is not included does not exist.
    """

    number: int
    server: datetime | None = field(default=None, compare=False)
    is_complete: bool = False
    topics: tuple[Topic, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    deleted_topics: frozenset[str] = frozenset()
    deleted_subscription_ids: frozenset[str] = frozenset()

    @property
    def last(self) -> LastChange:
        """What a reader knows that has applied these changes."""
        return LastChange(self.number, self.server)

    def with_deletions(
        self, topics: Collection[str], subscription_ids: Collection[str]
    ) -> "Changes":
        """Return the same changes. If they are complete, they also name what was deleted.

        `topics` and `subscription_ids` are those that the reader knows.
        """
        if not self.is_complete:
            return self
        kept = {each.name for each in self.topics}, {each.id for each in self.subscriptions}
        return replace(
            self,
            deleted_topics=frozenset(topics) - kept[0],
            deleted_subscription_ids=frozenset(subscription_ids) - kept[1],
        )
