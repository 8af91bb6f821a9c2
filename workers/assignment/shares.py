"""How much of a subscription's rate this worker may use."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from app.domain.message import Partition
from app.domain.subscription import Subscription
from app.domain.topic import Topic
from workers.delivery.share import Share


def by_topic(owned: Iterable[Partition]) -> Mapping[str, frozenset[int]]:
    """The partitions of each topic that are `owned`."""
    indexes: defaultdict[str, set[int]] = defaultdict(set)
    for partition in owned:
        indexes[partition.topic].add(partition.index)
    return {topic: frozenset(found) for topic, found in indexes.items()}


def owned_share(subscription: Subscription, topic: Topic, owned: frozenset[int]) -> Share:
    """The share of the subscription's rate that goes with the partitions that are `owned`."""
    return Share.owned(float(subscription.policy.rate), owned, topic.partitions)
