"""What SQL says of topics and subscriptions against what the whole resource would be answered."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.bodies.base import JsonObject
from app.api.management.catalogue.subscription_read import subscription_read
from app.api.management.catalogue.topic_bodies import topic_read
from app.domain.catalogue.batching import BatchFormat, DeliveryType
from app.domain.catalogue.dead_letter import DeadLetter
from app.domain.catalogue.monitoring import Monitoring, Severity
from app.domain.catalogue.query import parsed_query
from app.domain.catalogue.subscription import (
    ContentMode,
    DeliveryPolicy,
    EndpointMode,
    Ordering,
    State,
)
from app.domain.catalogue.topic import Ack, Topic
from app.domain.errors import InvalidQueryError
from app.domain.owner import Owner
from app.domain.trace import TrackingMode
from app.filtering.queries import compiled, reader
from app.storage.catalogue.conditions import narrowed
from app.storage.catalogue.groups import GroupRepository
from app.storage.catalogue.listings import SUBSCRIPTIONS, TOPICS, Catalogue, CatalogueKind, Within
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.tables import SubscriptionRow, TopicRow
from tests.integration.storage.builders import a_subscription

Described = Mapping[str, Any]
Named = tuple[str, ...]

_TOPICS = [
    Topic(name="shop.orders"),
    Topic(
        name="shop.rare_1",
        partitions=3,
        description="two\nlines",
        owner=Owner(source="Other", id="7"),
        ack=Ack.ALL,
        alternate_topic="shop.orders",
        throughput_quota=1_000_000,
        message_size_max=2048,
        tracking=TrackingMode.ALL,
        subscribing_restricted=True,
    ),
    Topic(name="shop.rareX1", tracking=TrackingMode.DISCARDED),
]
_SUBSCRIPTIONS = [
    a_subscription("plain"),
    a_subscription(
        "rich",
        endpoint="https://user:secret@shop.test/a%20b_c",
        state=State.SUSPENDED,
        description="true",
        contact="400",
        delivery_type=DeliveryType.BATCH,
        batch_format=BatchFormat.NDJSON,
        ordering=Ordering.KEY,
        http2=True,
        auto_delete=True,
        identity_headers=True,
        idempotency_key=False,
        suspend_on_gone=False,
        failure_expression="status == 299",
        dead_letter=DeadLetter(topic="shop.dead"),
        monitoring=Monitoring(severity=Severity.CRITICAL, reaction="call"),
        tracking=TrackingMode.DISCARDED,
        policy=DeliveryPolicy(
            rate=1,
            message_ttl=timedelta(seconds=7),
            request_timeout=timedelta(milliseconds=300),
            message_backoff=timedelta(milliseconds=1),
            backoff_multiplier=1.5,
            retry_client_errors=True,
            max_retries=0,
            publish_ttl=timedelta(seconds=40),
            exhausted_wait_max=timedelta(seconds=30),
            batch_time=timedelta(milliseconds=101),
        ),
    ),
    a_subscription(
        "structured", content_mode=ContentMode.CE_STRUCTURED, mode=EndpointMode.BROADCAST
    ),
    # As one that was stored before there were these settings.
    a_subscription("old"),
]


@pytest.fixture
async def filled(database: Database) -> Database:
    async with database.transaction() as session:
        await GroupRepository(session).add("shop")
        for topic in _TOPICS:
            await TopicRepository(session).add(topic)
        for subscription in _SUBSCRIPTIONS:
            await SubscriptionRepository(session).add(subscription)
        old = update(SubscriptionRow).where(SubscriptionRow.name == "old")
        await session.execute(old.values(settings={}, policy={"rate": 400}))
        await session.execute(update(TopicRow).values(settings={}).where(TopicRow.name == _OLD))
    return database


_OLD = "shop.orders"


async def described(database: Database, kind: CatalogueKind[Any]) -> Mapping[Named, Described]:
    async with database.transaction() as session:
        whole = await Catalogue(session, kind).whole(after=None, limit=100)
    return {key: as_answered(each) for key, each in whole}


def as_answered(each: Any) -> Described:  # noqa: ANN401 - of either kind
    if isinstance(each, Topic):
        return topic_read(each).answered()
    return subscription_read(each, each.state).answered()


@pytest.mark.parametrize("kind", [TOPICS, SUBSCRIPTIONS], ids=["topics", "subscriptions"])
async def test_each_column_says_what_is_answered(
    filled: Database, kind: CatalogueKind[Any]
) -> None:
    paths = sorted(kind.columns)
    answered = await described(filled, kind)
    async with filled.transaction() as session:
        values = await Catalogue(session, kind).values(paths, after=None, limit=100)
    assert len(values) == len(answered) > 2
    for key, columns in values:
        read = reader(answered[key])
        assert columns == {path: read(path) for path in paths}


async def test_the_answers_differ_in_each_column(filled: Database) -> None:
    """Else the test above would not see a column that always says the default."""
    same = {"createdAt", "modifiedAt", "owner.source", "owner.id", "supportTeam", "topicName"}
    same |= {f"subscriptionPolicy.{name}" for name in _UNCHANGED} | {"contentType"}
    answered = [reader(each) for each in (await described(filled, SUBSCRIPTIONS)).values()]
    for path in SUBSCRIPTIONS.columns.keys() - same:
        assert len({str(read(path)) for read in answered}) > 1, (
            f"give {path} another value in one of _SUBSCRIPTIONS"
        )


_UNCHANGED = {
    "adaptiveRate",
    "backoffMaxIntervalInSec",
    "backoffMaxIntervalMillis",
    "batchSize",
    "batchVolume",
    "firstRetryImmediate",
    "heartbeatMax",
    "inflightSize",
    "onExhausted",
    "parkedKeysMax",
    "retryBufferSize",
    "sendingDelay",
}

_VALUES: list[Any] = [
    *("shop.orders", "rich", "true", "400", "1", "1.5", "KEY", "trackingOff", "", "a\0", "nan"),
    *(True, False, None, 0, 1, 1.0, 1.5, 400, 1 << 60, 10**30, 0.5, [], {}, ["rich"]),
]
_REGEXES = [
    *(".*", "", "r.*", ".*r.*", "shop.rare_.*", r".*two\nlines", ".*two.*lines", "(?i)RICH"),
    *("rich|plain", "r(i)ch", "4+0*", ".*/a%20b_c", "(", "trackingO.*", "a\0.*", "[a-z]+"),
]


def queries_of(path: str) -> list[JsonObject]:
    compared: list[JsonObject] = [{path: {op: value}} for op in ("eq", "ne") for value in _VALUES]
    compared += [{path: {"like": regex}} for regex in _REGEXES]
    compared += [
        {path: {op: v}} for op in ("gt", "lt") for v in (0, 1, "399.5", 1e30, "inf", "nan")
    ]
    compared += [{path: {"in": _VALUES}}, {path: {"in": []}}]
    return [*compared, *({"not": each} for each in compared)]


@pytest.mark.parametrize("kind", [TOPICS, SUBSCRIPTIONS], ids=["topics", "subscriptions"])
async def test_the_database_finds_what_a_query_holds_for(
    filled: Database, kind: CatalogueKind[Any]
) -> None:
    answered = await described(filled, kind)
    mixed: list[JsonObject] = [
        {"or": [{"name": "rich"}, {"nothing.at.all": "x"}]},
        {"not": [{"name": "rich"}, {"name": {"like": "p.*"}}]},
        {"and": [{"name": {"like": ".*"}}, {"description": {"ne": ""}}]},
        {},
    ]
    for queries in [*(queries_of(path) for path in _LOOKED_AT), mixed]:
        # Not all in one: a transaction is cut after ten seconds.
        async with filled.transaction() as session:
            for query in queries:
                await require_found(session, kind, query, answered=answered)


_LOOKED_AT = (
    *("name", "description", "contact", "partitions", "createdAt", "trackingEnabled"),
    *("trackingMode", "alternateTopic", "throughputQuota", "nothing.at.all"),
    *("subscriptionPolicy.rate", "subscriptionPolicy.backoffMultiplier", "http2Enabled"),
    *("subscriptionPolicy.maxRetries", "deadLetter.topic", "endpoint"),
)


async def require_found(
    session: AsyncSession,
    kind: CatalogueKind[Any],
    query: JsonObject,
    *,
    answered: Mapping[Named, Described],
) -> None:
    parsed = parsed_query({"query": query})
    try:
        holds = compiled(parsed)
    except InvalidQueryError:
        return
    wanted = {key for key, each in answered.items() if holds(reader(each))}
    narrowing = narrowed(parsed, kind.columns)
    part = Within(where=narrowing.where)
    rows = await Catalogue(session, kind, within=part).values([], after=None, limit=100)
    found = {key for key, _ in rows}
    assert wanted == found if narrowing.exact else wanted <= found, query


def exact(query: JsonObject) -> bool:
    return narrowed(parsed_query({"query": query}), SUBSCRIPTIONS.columns).exact


def test_what_sql_says_as_well_is_not_looked_at_again() -> None:
    for query in _EXACT:
        assert exact(query), query
    for query in _INEXACT:
        assert not exact(query), query


_EXACT: Sequence[JsonObject] = [
    {},
    {"name": "x", "state": {"ne": "ACTIVE"}},
    {"or": [{"owner.id": "a"}, {"subscriptionPolicy.rate": {"gt": 5}}]},
    {"not": {"http2Enabled": True}},
]
_INEXACT: Sequence[JsonObject] = [
    {"name": {"like": "x"}},
    {"filters": []},
    {"or": [{"name": "a"}, {"nothing": 1}]},
    {"createdAt": "1.5"},
]
