"""5,000 topics and 20,000 subscriptions with all that is reported of them, straight in the tables.

Over the API, that would take an hour.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

import orjson
from sqlalchemy import insert, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.health.indicators import Indicator, Problem
from app.domain.health.subscription_health import SubscriptionHealth
from app.domain.owner import Owner
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.groups import GroupRepository
from app.storage.catalogue.rows import subscription_values, topic_values
from app.storage.database import Database
from app.storage.json_values import to_json
from app.storage.sealing import vault_of
from app.storage.tables import SubscriptionRow, TopicRow

TOPICS: Final = 5_000
SUBSCRIPTIONS: Final = 20_000
GROUPS: Final = 50
OWNERS: Final = 100
# Rows of one statement.
PER_GO: Final = 1_000
# One in so many is not healthy, has an alert, is constrained; of topics, is inactive.
ONE_IN: Final = 50

_REPORTED: Final = """
INSERT INTO log_topics (name, retention_ms, message_size_max)
SELECT name, 86400000, 51200 FROM topics;

INSERT INTO log_partitions (topic_id, partition, next_offset)
SELECT id, n, 1000 FROM log_topics, generate_series(0, 7) n
WHERE name IN (SELECT name FROM topics);

INSERT INTO workers (id, host, pid, applied_change, partitions, started_at)
VALUES ('w', 'h', 1, 1000000, 40000, now());

INSERT INTO cursors
(subscription_id, partition, topic, worker_id, "offset", "end", delivered, discarded, volume)
SELECT id, n, topic, 'w', 900, 900 + n, 800, 1, 100000
FROM subscriptions, generate_series(0, 7) n;

INSERT INTO subscription_loads
(subscription_id, worker_id, "window", in_flight, waiting_retries, counts, seen_at)
SELECT id, 'w', interval '60 s', 1, 0, jsonb_build_object('codes_2xx', 60), now() + interval '1 h'
FROM subscriptions;

INSERT INTO subscription_health (subscription_id, unhealthy, health)
SELECT id, is_bad, (CASE WHEN is_bad THEN :bad ELSE :good END)::jsonb
FROM subscriptions, LATERAL (SELECT substring(name, 2)::int % :one_in = 0 AS is_bad) AS seen;

INSERT INTO alerts
(id, kind, subscription_id, topic, subscription, description, details, raised_at)
SELECT md5(id), 'UNDELIVERED', id, topic, name, 'Many messages are discarded', '{}', now()
FROM subscriptions WHERE substring(name, 2)::int % :one_in = 0;

INSERT INTO workload_constraints (topic, subscription, consumers)
SELECT topic, name, 4 FROM subscriptions WHERE substring(name, 2)::int % :one_in = 0;

INSERT INTO topic_activity (topic, published, grown_at)
SELECT name, 8000, now() - interval '90 d' FROM topics
WHERE substring(name, '[0-9]+$')::int % :one_in = 0;

-- Somebody else watches over them, and takes that over: what that costs is no part of this.
INSERT INTO leases (name, holder, until, renewed_at)
VALUES ('health', 'bench', now() + interval '1 d', now())
ON CONFLICT (name) DO UPDATE SET holder = EXCLUDED.holder, until = EXCLUDED.until;

ANALYZE
"""


async def fill(
    database: Database,
    *,
    topics: int = TOPICS,
    subscriptions: int = SUBSCRIPTIONS,
    one_in: int = ONE_IN,
) -> None:
    """So many of them; what one in so many has, see above."""
    async with database.transaction() as session:
        for number in range(min(GROUPS, topics)):
            await GroupRepository(session).add(f"g{number}")
    for some in batched(range(topics), PER_GO):
        async with database.transaction() as session:
            await _add_topics(session, [a_topic(n) for n in some])
    for some in batched(range(subscriptions), PER_GO):
        async with database.transaction() as session:
            await _add_subscriptions(session, [a_subscription(n, topics) for n in some])
    for statement in _REPORTED.split(";"):
        async with database.transaction() as session:
            # On a busy machine some take longer than any query of the service may.
            await session.execute(text("SET LOCAL statement_timeout = 0"))
            await session.execute(text(statement), _values(statement, one_in))


def batched(numbers: range, size: int) -> Iterator[range]:
    """One after the other, so many at most at a time."""
    return (numbers[first : first + size] for first in range(0, len(numbers), size))


def a_topic(number: int) -> Topic:
    """Of so many; each belongs to one of the owners."""
    owner = Owner(id=f"Team {number % OWNERS}")
    return Topic(name=f"g{number % GROUPS}.t{number}", owner=owner)


def a_subscription(number: int, topics: int = TOPICS) -> Subscription:
    """Of so many; each of the topics has as many as the others."""
    return Subscription(
        id=f"{number:032x}",
        topic=a_topic(number % topics).name,
        name=f"s{number}",
        endpoint=f"http://service-{number % OWNERS}.test/{number}",
        owner=Owner(id=f"Team {number % OWNERS}"),
        start=dict.fromkeys(range(8), 0),
    )


async def _add_topics(session: AsyncSession, topics: Sequence[Topic]) -> None:
    change = await ChangeFeed(session).next_number()
    rows = [
        {"name": each.name, "group_name": each.group, "change": change, **topic_values(each)}
        for each in topics
    ]
    await session.execute(insert(TopicRow), rows)


async def _add_subscriptions(session: AsyncSession, subscriptions: Sequence[Subscription]) -> None:
    change = await ChangeFeed(session).next_number()
    rows = [
        {"id": each.id, "topic": each.topic, "name": each.name, "change": change}
        | subscription_values(each, vault_of(session))
        for each in subscriptions
    ]
    await session.execute(insert(SubscriptionRow), rows)


def _values(statement: str, one_in: int) -> dict[str, object]:
    problem = Problem(code=Indicator.LAGGING, description="The oldest message is 720 s old")
    bad = SubscriptionHealth(
        lag=900, lag_time=timedelta(seconds=720), drain=None, problems=(problem,)
    )
    values = {
        "one_in": one_in,
        "bad": orjson.dumps(to_json(bad)).decode(),
        "good": orjson.dumps(to_json(SubscriptionHealth())).decode(),
    }
    return {name: value for name, value in values.items() if f":{name}" in statement}
