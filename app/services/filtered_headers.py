"""Checks the headers in filters. A filter may use only headers that its own topic propagates.

Messages that come from other topics (dead letters, offline retransmissions) may have further
headers. Filters may not use these headers, so that no filter depends on other topics. The caller of
each check must hold the lock of changes. So no topic changes between the check and the change that
is checked.
"""

from collections.abc import Sequence
from typing import Final

from app.domain.catalogue.filters import Filter
from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError
from app.filtering.header_names import headers_named, require_filterable
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository

# The maximum number of subscriptions that an error about a missing header names.
_NAMED_MAX: Final = 5


async def require_filter_headers(
    filters: Sequence[Filter], topic: str, topics: TopicRepository
) -> None:
    """Check that the topic propagates all headers that the filters name.

    Raises:
        TopicNotFoundError: The topic does not exist.
        ValidationFailedError: A header is not propagated. The error names the field and the header.
    """
    require_filterable(filters, (await topics.get(topic)).propagated_headers)


async def require_kept_headers(
    topic: Topic, wanted: Topic, subscriptions: SubscriptionRepository
) -> None:
    """Check that the changed topic `wanted` still propagates the headers that filters use.

    The filters are those of the topic's subscriptions.

    Raises:
        ValidationFailedError: A filter names a header that would no longer be propagated.
    """
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
