"""Queries, search and counts: Hermes' shapes."""

from typing import Any, Literal

from pydantic import Field

from app.api.bodies.base import Schema
from app.storage.catalogue.listings import CatalogueCounts, Hits, SubscriptionHit, TopicHit


class QueryBody(Schema):
    """A query in Hermes' language: fields by dotted paths, and `and`, `or`, `not`.

    A field is compared with a value, or by `eq`, `ne`, `like` (a regex in RE2 syntax that matches
    all of it), `in`, `gt` and `lt`; all members of an object hold together.
    """

    query: dict[str, Any] = Field(
        examples=[{"name": {"like": ".*orders"}, "or": [{"owner.id": "Shop"}, {"partitions": 8}]}]
    )


class OwnerIdRead(Schema):
    """An owner, by id."""

    id: str


class TopicOfHitRead(Schema):
    """A topic that was found: whose it is."""

    group_name: str
    owner: OwnerIdRead


class TopicHitRead(Schema):
    """A topic that was found."""

    type: Literal["TOPIC"] = "TOPIC"
    name: str
    topic: TopicOfHitRead

    @classmethod
    def of(cls, hit: TopicHit) -> "TopicHitRead":
        """The answer for `hit`."""
        owner = OwnerIdRead(id=hit.owner_id)
        group = hit.name.rpartition(".")[0]
        return cls(name=hit.name, topic=TopicOfHitRead(group_name=group, owner=owner))


class NamedTopicRead(Schema):
    """The topic of a subscription that was found; `name` is without the group."""

    name: str
    qualified_name: str
    group_name: str


class SubscriptionOfHitRead(Schema):
    """A subscription that was found: where it leads, and to what topic."""

    endpoint: str
    topic: NamedTopicRead


class SubscriptionHitRead(Schema):
    """A subscription that was found."""

    type: Literal["SUBSCRIPTION"] = "SUBSCRIPTION"
    name: str
    subscription: SubscriptionOfHitRead

    @classmethod
    def of(cls, hit: SubscriptionHit) -> "SubscriptionHitRead":
        """The answer for `hit`."""
        group, _, name = hit.topic.rpartition(".")
        topic = NamedTopicRead(name=name, qualified_name=hit.topic, group_name=group)
        found = SubscriptionOfHitRead(endpoint=hit.endpoint, topic=topic)
        return cls(name=hit.name, subscription=found)


class SearchRead(Schema):
    """What was found, topics first, and how many there are of all."""

    results: list[TopicHitRead | SubscriptionHitRead]
    total_count: int

    @classmethod
    def of(cls, hits: Hits) -> "SearchRead":
        """The answer for `hits`."""
        topics = [TopicHitRead.of(each) for each in hits.topics]
        subscriptions = [SubscriptionHitRead.of(each) for each in hits.subscriptions]
        return cls(results=[*topics, *subscriptions], total_count=hits.total)


class TopicStatsRead(Schema):
    """Numbers of topics."""

    topic_count: int
    ack_all_topic_count: int
    tracking_enabled_topic_count: int
    avro_topic_count: int


class SubscriptionStatsRead(Schema):
    """Numbers of subscriptions."""

    subscription_count: int
    tracking_enabled_subscription_count: int
    avro_subscription_count: int


class StatsRead(Schema):
    """How many there are of what."""

    topic_stats: TopicStatsRead
    subscription_stats: SubscriptionStatsRead

    @classmethod
    def of(cls, counted: CatalogueCounts) -> "StatsRead":
        """The answer for `counted`."""
        return cls(
            topic_stats=TopicStatsRead(
                topic_count=counted.topics,
                ack_all_topic_count=counted.topics_ack_all,
                tracking_enabled_topic_count=counted.topics_tracked,
                avro_topic_count=counted.topics_avro,
            ),
            subscription_stats=SubscriptionStatsRead(
                subscription_count=counted.subscriptions,
                tracking_enabled_subscription_count=counted.subscriptions_tracked,
                avro_subscription_count=counted.subscriptions_avro,
            ),
        )
