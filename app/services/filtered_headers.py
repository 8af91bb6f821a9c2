"""Headers that filters name: only those that the filter's own topic propagates.

Messages from other topics (dead letters, offline retransmissions) may bring more. Filters name
those, too, only where their own topic propagates them. So what a filter may name does not depend on
other topics.

Whoever asks holds the change clock: nothing changes between the look and what is done then.
"""

from collections.abc import Sequence
from typing import Final

from app.domain.catalogue.filters import Filter
from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError
from app.filtering.header_names import headers_named, require_filterable
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository

# Of many subscriptions, so many are named.
_NAMED_MAX: Final = 5


async def require_filter_headers(
    filters: Sequence[Filter], topic: str, topics: TopicRepository
) -> None:
    """Refuse filters on a topic's messages which name headers that it does not propagate.

    Raises:
        TopicNotFoundError: There is no such topic.
        ValidationFailedError: Its field and its header are named.
    """
    require_filterable(filters, (await topics.get(topic)).propagated_headers)


async def require_kept_headers(
    topic: Topic, wanted: Topic, subscriptions: SubscriptionRepository
) -> None:
    """ValidationFailedError if `wanted` drops headers that filters of subscriptions name."""
    dropped = _lower(topic) - _lower(wanted)
    if not dropped:
        return
    named = {
        each.name: found
        for each in await subscriptions.of_topic(topic.name)
        if (found := dropped & headers_named(each.filters))
    }
    if named:
        headers = ", ".join(sorted(frozenset().union(*named.values())))
        names = ", ".join(sorted(named)[:_NAMED_MAX])
        others = len(named) - _NAMED_MAX
        more = f" and {others} more" if others > 0 else ""
        message = f"must keep {headers}, which filters name, of the subscriptions {names}{more}"
        raise ValidationFailedError.of("propagatedHeaders", message)


def _lower(topic: Topic) -> frozenset[str]:
    return frozenset(name.lower() for name in topic.propagated_headers)
