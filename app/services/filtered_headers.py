"""Headers that filters name: messages have them only where their topic propagates them.

Whoever asks holds the change clock: nothing changes between the look and what is done then.
"""

from typing import Final

from app.domain.errors import ValidationFailedError
from app.domain.subscription import Subscription
from app.domain.topic import Topic
from app.filtering.header_names import headers_named, require_filterable
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository

# Of many subscriptions, so many are named.
_NAMED_MAX: Final = 5


async def require_filter_headers(
    subscription: Subscription, topics: TopicRepository, subscriptions: SubscriptionRepository
) -> None:
    """ValidationFailedError if its filters name headers that no message of its topic can have."""
    propagated = set((await topics.get(subscription.topic)).propagated_headers)
    try:
        require_filterable(subscription.filters, propagated)
    except ValidationFailedError:
        # Dead letters keep the headers that they had in their own topics.
        for each in await subscriptions.dead_lettering(subscription.topic):
            propagated.update((await topics.get(each.topic)).propagated_headers)
        require_filterable(subscription.filters, propagated)


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
