"""How much of a subscription's rate this worker may use."""

from app.domain.topic import Topic


def owned_share(topic: Topic, owned: int) -> float:
    """The part of the topic's partitions that is owned, 0.0 to 1.0.

    A partition has one owner, so the shares of all workers never add up to more than 1, and no
    worker has to ask another.
    """
    return min(1.0, owned / topic.partitions)
