"""Queries, search and counts in Hermes' form."""

from typing import Any, Literal

from pydantic import Field

from app.api.bodies.base import Schema
from app.storage.catalogue.listings import CatalogueCounts, Hits, SubscriptionHit, TopicHit


class QueryBody(Schema):
    """A query in Hermes' language: fields by dotted paths, and `and`, `or`, `not`.

    A field is compared with a value, or by `eq`, `ne`, `like` (a regex in RE2 syntax for the whole
    text), `in`, `gt` and `lt`. All members of an object must match.
    """

    query: dict[str, Any] = Field(
        examples=[{"name": {"like": ".*orders"}, "or": [{"owner.id": "Shop"}, {"partitions": 8}]}]
    )


class OwnerIdRead(Schema):
    """An owner, by id."""

    id: str


class TopicOfHitRead(Schema):
    """The owner of a found topic."""

    group_name: str
    owner: OwnerIdRead


class TopicHitRead(Schema):
    """A found topic."""

    type: Literal["TOPIC"] = "TOPIC"
    name: str
    topic: TopicOfHitRead

    @classmethod
    def of(cls, hit: TopicHit) -> "TopicHitRead":
        """Return the response for `hit`."""
        owner = OwnerIdRead(id=hit.owner_id)
        group = hit.name.rpartition(".")[0]
        return cls(name=hit.name, topic=TopicOfHitRead(group_name=group, owner=owner))


class NamedTopicRead(Schema):
    """The topic of a found subscription; `name` is without the group."""

    name: str
    qualified_name: str
    group_name: str


class SubscriptionOfHitRead(Schema):
    """The endpoint and topic of a found subscription."""

    endpoint: str
    topic: NamedTopicRead


class SubscriptionHitRead(Schema):
    """A found subscription."""

    type: Literal["SUBSCRIPTION"] = "SUBSCRIPTION"
    name: str
    subscription: SubscriptionOfHitRead

    @classmethod
    def of(cls, hit: SubscriptionHit) -> "SubscriptionHitRead":
        """Return the response for `hit`."""
        group, _, name = hit.topic.rpartition(".")
        topic = NamedTopicRead(name=name, qualified_name=hit.topic, group_name=group)
        found = SubscriptionOfHitRead(endpoint=hit.endpoint, topic=topic)
        return cls(name=hit.name, subscription=found)


class SearchRead(Schema):
    """Search results, topics first, and their total number."""

    results: list[TopicHitRead | SubscriptionHitRead]
    total_count: int

    @classmethod
    def of(cls, hits: Hits) -> "SearchRead":
        """Return the response for `hits`."""
        topics = [TopicHitRead.of(each) for each in hits.topics]
        subscriptions = [SubscriptionHitRead.of(each) for each in hits.subscriptions]
        return cls(results=[*topics, *subscriptions], total_count=hits.total)


class TopicStatsRead(Schema):
    """How many topics there are."""

    topic_count: int
    ack_all_topic_count: int
    tracking_enabled_topic_count: int
    avro_topic_count: int


class SubscriptionStatsRead(Schema):
    """How many subscriptions there are."""

    subscription_count: int
    tracking_enabled_subscription_count: int
    avro_subscription_count: int


class StatsRead(Schema):
    """How many topics and subscriptions there are."""

    topic_stats: TopicStatsRead
    subscription_stats: SubscriptionStatsRead

    @classmethod
    def of(cls, counted: CatalogueCounts) -> "StatsRead":
        """Return the response for `counted`."""
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
